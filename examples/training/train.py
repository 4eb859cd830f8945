#!/usr/bin/python3
"""Trains a neural network on handwritten digits, data-parallel over MPI, with a checkpoint after every epoch.

Every process computes the gradient of its part of each batch; the parts are added in the order of the processes, so that a run with as many
processes gives the same numbers again, to the bit. Process 0 alone writes the checkpoint, one HDF5 file: weights, momenta, epoch, losses. HDF5
leaves holes for its tables between the data, and returns to them when it closes the file. After the last epoch there is none, since nothing
would be left to compute. With --torch the gradients are PyTorch's; everything else, and the file, stays as it is. A run that is restarted compares its loss with that of the whole run, if
this has left it in the directory.

With --sharded every process writes a part of the state, as large as the others', into a file of its own, as ZeRO and FSDP do. With --keep best a
checkpoint is written only if the loss of the samples that are not trained on is the smallest so far. The state is 2 numbers of 8 bytes for each
parameter, the weight and its momentum; files have a little more, for the tables of HDF5 and the losses.
"""

import os

# threads of the linear algebra would add up in another order each time
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import sys
import time

import h5py
import numpy as np
from mpi4py import MPI
from sklearn.datasets import load_digits

TESTED = 297  # samples that are not trained on
BATCH = 100
RATE, MOMENTUM = 0.05, 0.9
LEAST_ACCURACY = 0.9
CHECKPOINT, SHARD, WHOLE_RUN = "training.h5", "training-{}-of-{}.h5", "loss.txt"

comm = MPI.COMM_WORLD


def say(text):
    if comm.rank == 0:
        print(text, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="last epoch, also after a restart")
    parser.add_argument("--hidden", type=int, default=128, help="neurons of the hidden layer")
    parser.add_argument("--checkpoints", type=int, choices=(0, 1), default=1, help="1: write one after every epoch but the last")
    parser.add_argument("--dir", default=".", help="directory of the checkpoint")
    parser.add_argument("--torch", action="store_true", help="gradients by PyTorch")
    parser.add_argument("--sharded", action="store_true", help="every process writes its part of the state into a file of its own")
    parser.add_argument("--keep", choices=("last", "best"), default="last", help="best: write one only if the loss of the tested samples is the smallest so far")
    parser.add_argument("--restart", action="store_true", help="go on from the checkpoint in the directory")
    given = parser.parse_args()
    if given.epochs < 1 or given.hidden < 1:
        parser.error("--epochs and --hidden are 1 or more")
    return given


def initial(hidden):
    random = np.random.default_rng(1)
    shapes = {"w1": (64, hidden), "b1": (hidden,), "w2": (hidden, 10), "b2": (10,)}
    weights = {name: random.normal(0.0, 0.1, shape) if name[0] == "w" else np.zeros(shape) for name, shape in shapes.items()}
    return weights, {name: np.zeros_like(w) for name, w in weights.items()}


def probabilities(weights, x):
    hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0.0)
    scores = hidden @ weights["w2"] + weights["b2"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradient(weights, x, y):
    """Sums over the samples: the loss, and its derivative by each weight."""
    hidden, p = probabilities(weights, x)
    loss = -np.log(p[np.arange(len(y)), y]).sum()
    p[np.arange(len(y)), y] -= 1.0
    back = (p @ weights["w2"].T) * (hidden > 0.0)
    parts = {"w1": x.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ p, "b2": p.sum(axis=0)}
    return np.concatenate([[loss]] + [parts[name].ravel() for name in weights])


def torch_gradient():
    """The same by PyTorch's automatic differentiation."""
    import torch

    # as for the linear algebra of numpy
    torch.set_num_threads(1)

    def of(weights, x, y):
        w = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in weights.items()}
        hidden = torch.relu(torch.from_numpy(x) @ w["w1"] + w["b1"])
        loss = torch.nn.functional.cross_entropy(hidden @ w["w2"] + w["b2"], torch.from_numpy(y), reduction="sum")
        loss.backward()
        return np.concatenate([[loss.item()]] + [value.grad.numpy().ravel() for value in w.values()])

    return of


def train_epoch(epoch, gradient, weights, momenta, x, y):
    order = np.random.default_rng(1000 + epoch).permutation(len(y))
    total = 0.0
    for start in range(0, len(y), BATCH):
        batch = order[start : start + BATCH]
        own = batch[comm.rank :: comm.size]
        parts = np.empty((comm.size, 1 + sum(w.size for w in weights.values())))
        comm.Allgather(gradient(weights, x[own], y[own]), parts)
        summed = parts[0].copy()
        for part in parts[1:]:
            summed += part
        total += summed[0]
        at = 1
        for name, w in weights.items():
            slope = summed[at : at + w.size].reshape(w.shape) / len(batch)
            at += w.size
            momenta[name] *= MOMENTUM
            momenta[name] -= RATE * slope
            w += momenta[name]
    return total / len(y)


def own_part(state):
    """The part of the state that this process writes and reads if it is sharded."""
    return np.array_split(state, comm.size)[comm.rank]


def write_file(path, epoch, best, losses, arrays):
    temporary = path + ".tmp"
    with h5py.File(temporary, "w") as file:
        file.attrs["epoch"] = epoch
        file.attrs["processes"] = comm.size
        if best is not None:
            file.attrs["best"] = best
        file["losses"] = losses
        for name, values in arrays.items():
            file[name] = values
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())


def write_checkpoint(paths, sharded, epoch, weights, momenta, losses, best):
    """Writes the file of this process; none replaces an older one before all are on disk."""
    begin = time.monotonic()
    mine = paths[comm.rank] if sharded else paths[0]
    if sharded:
        state = np.concatenate([values.ravel() for of in (weights, momenta) for values in of.values()])
        write_file(mine, epoch, best, losses, {"state": own_part(state)})
        comm.Barrier()
    elif comm.rank == 0:
        arrays = {f"{kind}/{name}": of[name] for name in weights for kind, of in (("weights", weights), ("momenta", momenta))}
        write_file(mine, epoch, best, losses, arrays)
    if sharded or comm.rank == 0:
        os.replace(mine + ".tmp", mine)
    if sharded:
        comm.Barrier()
    if comm.rank == 0:
        size = sum(os.path.getsize(path) for path in paths)
        say(f"Checkpoint {epoch} written: {size} bytes in {time.monotonic() - begin:.6f} s (epoch {epoch})")


def read_checkpoint(paths, sharded, weights, momenta):
    """Gives the epoch, the losses, and the smallest loss of the tested samples, if the checkpoint has it."""
    parts, heads = [], set()
    for path in paths:
        with h5py.File(path, "r") as file:
            if file.attrs["processes"] != comm.size:
                raise ValueError(f"of a run with {file.attrs['processes']} processes, not {comm.size}: sums would differ in their last bits")
            heads.add((int(file.attrs["epoch"]), file.attrs.get("best")))
            losses = list(file["losses"][...])
            if sharded:
                parts.append(file["state"][...])
                continue
            for name in weights:
                if file["weights/" + name].shape != weights[name].shape:
                    raise ValueError("of a network of another size: give the same --hidden")
                weights[name][...] = file["weights/" + name][...]
                momenta[name][...] = file["momenta/" + name][...]
    if len(heads) > 1:
        raise ValueError(f"parts of several epochs: {sorted(epoch for epoch, _ in heads)}")
    if sharded:
        state, at = np.concatenate(parts), 0
        if state.size != 2 * sum(w.size for w in weights.values()):
            raise ValueError("of a network of another size: give the same --hidden")
        for values in (values for of in (weights, momenta) for values in of.values()):
            values[...] = state[at : at + values.size].reshape(values.shape)
            at += values.size
    epoch, best = heads.pop()
    return epoch, losses, best


def main():
    given = arguments()
    begin = time.monotonic()
    names = [SHARD.format(rank, comm.size) for rank in range(comm.size)] if given.sharded else [CHECKPOINT]
    paths = [os.path.join(given.dir, name) for name in names]
    digits = load_digits()
    x, y = digits.data / 16.0, digits.target
    weights, momenta = initial(given.hidden)
    slopes = gradient
    if given.torch:
        try:
            slopes = torch_gradient()
        except ImportError as error:
            say(f"ERROR: PyTorch is not there: {error}; Debian, Ubuntu: apt-get install python3-torch")
            return 3
    epoch, losses, best = 0, [], None
    parameters = sum(w.size for w in weights.values())
    say(f"Parameters = {parameters}")
    if given.restart:
        try:
            epoch, losses, best = read_checkpoint(paths, given.sharded, weights, momenta)
        except (OSError, KeyError, ValueError) as error:
            say(f"ERROR: cannot restart from {paths[0]}: {error}")
            return 3
        say(f"Restarted from {paths[0]}: epoch {epoch}")
    while epoch < given.epochs:
        epoch += 1
        losses.append(train_epoch(epoch, slopes, weights, momenta, x[TESTED:], y[TESTED:]))
        say(f"Epoch {epoch} loss {losses[-1]:.12f}")
        if not given.checkpoints or epoch == given.epochs:
            continue
        if given.keep == "best":
            p = probabilities(weights, x[:TESTED])[1]
            tested = float(-np.log(p[np.arange(TESTED), y[:TESTED]]).mean())
            if best is not None and tested >= best:
                say(f"No checkpoint: loss of the tested samples {tested:.6f}, smallest {best:.6f}")
                continue
            best = tested
        write_checkpoint(paths, given.sharded, epoch, weights, momenta, losses, best)
    if given.checkpoints:
        say(f"State of a checkpoint = {2 * 8 * parameters} bytes")
    loss, well = float(losses[-1]).hex(), True
    accuracy = float((probabilities(weights, x[:TESTED])[1].argmax(axis=1) == y[:TESTED]).mean())
    if comm.rank == 0 and given.checkpoints:
        whole_run = os.path.join(given.dir, WHOLE_RUN)
        if given.restart and os.path.exists(whole_run):
            with open(whole_run, encoding="ascii") as file:
                expected = file.read().strip()
            well = loss == expected
            say(f"Loss of the whole run = {expected}")
        elif not given.restart:
            with open(whole_run, "w", encoding="ascii") as file:
                file.write(loss + "\n")
    say(f"Loss = {loss}")
    say(f"Accuracy = {accuracy:.4f}")
    say(f"Time in seconds = {time.monotonic() - begin:.3f}")
    well = comm.bcast(well) and accuracy >= LEAST_ACCURACY
    say(f"Verification = {'SUCCESSFUL' if well else 'FAILED'}")
    return 0 if well else 1


sys.exit(main())
