#!/usr/bin/env python3
"""Finds the disks of an EC2 instance by the names that they were asked for, and tells what is on them. It changes nothing.

Its argument: {"volumes": [{"device": "/dev/sdf", "mount": "/data", "size_gib": 8}], "instance_store": "/scratch", "wait_s": 15}
What it prints: {"disks": [...], "problems": [...]}; with a problem nothing may be touched. Of each disk:

  what        in messages: "volume /dev/sdf (/dev/nvme1n1)"
  mount       where it is to be mounted
  members     devices; several are to be one array
  device      what is mounted; "" until the members form an array
  label       of its file system: by this cvc knows what it has made
  state       "blank", "stopped" (an array that is not assembled), "made" (with cvc's file system)
  mounted     whether it is mounted there
  type, uuid  of its file system
"""
import ctypes
import fcntl
import glob
import json
import os
import stat
import struct
import subprocess
import sys
import time

EBS = "Amazon Elastic Block Store"
STORE = "Amazon EC2 NVMe Instance Storage"
# on machines without NVMe, the names that their own disks are asked for with
XEN_STORE = "bcde"
ARRAY = "cvc"
# struct nvme_admin_cmd and what it is passed to the kernel with
NVME_ADMIN_CMD = 0xC0484E41
NVME_COMMAND = "<BBHIIIQQIIIIIIIIII"
IDENTIFY_SIZE = 4096


def letter(name):
    """What sdf and xvdf have in common."""
    name = name.split("/")[-1]
    for prefix in ("xvd", "sd"):
        if name.startswith(prefix):
            return name[len(prefix):]
    return name


def name_in(identity):
    """The name in what the controller of an EBS volume says of itself; "" if it is none. EBS writes it where vendors may write."""
    if identity[24:64].decode("ascii", "replace").strip(" \0") != EBS:
        return ""
    return identity[3072:3104].decode("ascii", "replace").strip(" \0")


def asked(device):
    """The name that an EBS volume on NVMe was asked for with."""
    answer = ctypes.create_string_buffer(IDENTIFY_SIZE)
    identify_controller = (0x06, 0, 0, 0, 0, 0, 0, ctypes.addressof(answer), 0, IDENTIFY_SIZE, 1, 0, 0, 0, 0, 0, 0, 0)
    command = ctypes.create_string_buffer(struct.pack(NVME_COMMAND, *identify_controller), struct.calcsize(NVME_COMMAND))
    try:
        descriptor = os.open(device, os.O_RDONLY)
    except OSError:
        return ""
    try:
        fcntl.ioctl(descriptor, NVME_ADMIN_CMD, command)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return name_in(answer.raw)


def is_disk(path):
    try:
        return stat.S_ISBLK(os.stat(path).st_mode)
    except OSError:
        return False


def number(device):
    rdev = os.stat(device).st_rdev
    return "%d:%d" % (os.major(rdev), os.minor(rdev))


def kernel(device):
    """Its directory in sysfs."""
    return os.path.realpath("/sys/dev/block/" + number(device))


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def nvme(model):
    """Whole disks of a model, by udev's links and by what the kernel says."""
    links = glob.glob("/dev/disk/by-id/nvme-%s_*" % model.replace(" ", "_"))
    devices = [os.path.realpath(link) for link in links if "-part" not in os.path.basename(link)]
    for directory in glob.glob("/sys/block/nvme*n*"):
        if read(directory + "/device/model") == model:
            devices.append("/dev/" + os.path.basename(directory))
    return sorted(set(d for d in devices if is_disk(d)))


def volume(name):
    """The device of a volume that was asked for by this name; "" while there is none."""
    for path in ("/dev/xvd" + letter(name), "/dev/sd" + letter(name)):
        if is_disk(path):
            return os.path.realpath(path)
    for device in nvme(EBS):
        if letter(asked(device)) == letter(name):
            return device
    return ""


def own_disks(volumes):
    """The disks of the machine itself."""
    found = nvme(STORE)
    if found:
        return found
    ebs = nvme(EBS)
    for last in XEN_STORE:
        for path in ("/dev/xvd" + last, "/dev/sd" + last):
            if is_disk(path) and os.path.realpath(path) not in ebs + volumes:
                found.append(os.path.realpath(path))
    return sorted(set(found))


def mounts():
    """Where what is mounted: number of the device, mount point, device."""
    found = []
    for line in read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        # blanks and such are written as \040
        place = fields[4].encode().decode("unicode_escape")
        found.append((fields[2], place, after.split()[1]))
    return found


def signature(device):
    """What is on a disk: nothing, a file system, a part of an array, partitions. Read from the disk, not from any cache."""
    probe = subprocess.run(["blkid", "-p", "-o", "export", device], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           universal_newlines=True)
    if probe.returncode == 2 and not probe.stdout.strip():
        return {}
    if probe.returncode != 0:
        return {"TYPE": "unknown (%s)" % (probe.stderr.strip() or "blkid ended with code %d" % probe.returncode)}
    return dict(line.split("=", 1) for line in probe.stdout.splitlines() if "=" in line)


def in_use(device):
    """Why a disk is none to make anything on, whatever is on it."""
    directory = kernel(device)
    name = os.path.basename(directory)
    if glob.glob(directory + "/*/partition"):
        return "it has partitions"
    if any(os.path.realpath(line.split()[0]) == device for line in read("/proc/swaps").splitlines()[1:]):
        return "it is used for swapping"
    holders = [h for h in os.listdir(directory + "/holders") if not h.startswith("md")] if os.path.isdir(directory + "/holders") else []
    if holders:
        return "it is a part of %s" % ", ".join(holders)
    root = os.stat("/").st_dev
    if "%d:%d" % (os.major(root), os.minor(root)) == number(device) or name in ("xvda", "sda"):
        return "it is the root disk"
    return ""


def array_of(member):
    """The array that a disk is a part of."""
    holders = kernel(member) + "/holders"
    names = [h for h in os.listdir(holders) if h.startswith("md")] if os.path.isdir(holders) else []
    return "/dev/" + names[0] if names else ""


class Look:
    def __init__(self, wish):
        self.wish = wish
        self.disks = []
        self.problems = []
        self.missing = False

    def absent(self, problem):
        self.missing = True
        self.problems.append(problem)

    def look(self):
        volumes = []
        for one in self.wish.get("volumes") or []:
            device = volume(one["device"])
            if not device:
                known = ", ".join(nvme(EBS)) or "none on NVMe"
                self.absent("the volume %s for %s is not there (EBS volumes here: %s)" % (one["device"], one["mount"], known))
                continue
            what = "volume %s (%s)" % (one["device"], device)
            volumes.append(device)
            sectors = int(read(kernel(device) + "/size") or 0)
            wanted = int(one.get("size_gib") or 0) << 21
            if wanted and sectors and sectors != wanted:
                self.problems.append("%s for %s is of %.1f GiB and not of %d" % (what, one["mount"], sectors / 2.0 ** 21, one["size_gib"]))
                continue
            self.take(what, one["mount"], [device], "cvc-sd" + letter(one["device"]))
        store = self.wish.get("instance_store")
        if store:
            members = own_disks(volumes)
            if members:
                self.take("instance store (%s)" % ", ".join(members), store, members, "cvc-store")
            else:
                self.absent("no instance store for %s: choose an instance type with local disks, or remove the store" % store)
        return {"disks": self.disks, "problems": self.problems}

    def take(self, what, mount, members, label):
        disk = {"what": what, "mount": mount, "members": members, "label": label, "device": members[0], "state": "blank",
                "mounted": False, "type": "", "uuid": ""}
        if len(members) > 1 and not self.array(disk):
            return
        if disk["device"]:
            if not self.content(disk):
                return
        for place_of, place, source in mounts():
            mine = bool(disk["device"]) and place_of == number(disk["device"])
            if mine and place == mount:
                disk["mounted"] = True
            elif mine and disk["state"] != "made":
                self.problems.append("%s for %s is mounted at %s: unmount it" % (what, mount, place))
                return
            elif place == mount:
                self.problems.append("%s cannot be mounted at %s: %s is mounted there" % (what, mount, source))
                return
        self.disks.append(disk)

    def array(self, disk):
        """Whether several disks are, or may become, cvc's array."""
        arrays = set(array_of(m) for m in disk["members"])
        blank, foreign = [], []
        for member in disk["members"]:
            found = signature(member)
            ours = found.get("TYPE") == "linux_raid_member" and found.get("LABEL", "").split(":")[-1] == ARRAY
            if not found and not in_use(member) and not array_of(member):
                blank.append(member)
            elif not ours or in_use(member):
                foreign.append("%s has %s" % (member, in_use(member) or told(found)))
        if foreign:
            self.problems.append("%s for %s: %s; it is left alone" % (disk["what"], disk["mount"], "; ".join(foreign)))
            return False
        if blank and len(blank) < len(disk["members"]):
            self.problems.append("%s for %s: an array that lacks %s" % (disk["what"], disk["mount"], ", ".join(blank)))
            return False
        if not blank and len(arrays) > 1:
            self.problems.append("%s for %s: its disks are parts of several arrays" % (disk["what"], disk["mount"]))
            return False
        disk["device"] = "" if blank else arrays.pop()
        disk["state"] = "stopped" if not blank and not disk["device"] else "blank"
        return True

    def content(self, disk):
        """Whether a device is blank or cvc's own."""
        used = in_use(disk["device"])
        found = signature(disk["device"])
        disk["type"], disk["uuid"] = found.get("TYPE", ""), found.get("UUID", "")
        if not used and found.get("LABEL") == disk["label"] and disk["type"] in ("ext4", "xfs"):
            disk["state"] = "made"
            return True
        if used or found:
            because = used or "it has %s" % told(found)
            self.problems.append("%s for %s is not blank: %s; it is left alone" % (disk["what"], disk["mount"], because))
            return False
        return True


def told(found):
    if "PTTYPE" in found:
        return "partitions (%s)" % found["PTTYPE"]
    label = " labelled %s" % found["LABEL"] if found.get("LABEL") else ""
    return "%s%s" % (found.get("TYPE", "something on it"), label)


def main():
    wish = json.loads(sys.argv[1])
    end = time.time() + float(wish.get("wait_s") or 0)
    while True:
        look = Look(wish)
        answer = look.look()
        # a volume is attached while its machine boots
        if not look.missing or time.time() > end:
            break
        time.sleep(1)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
