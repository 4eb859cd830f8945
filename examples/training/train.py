#!/usr/bin/python3
"""Trains a neural network on handwritten digits, data-parallel over MPI, with a checkpoint after every epoch.

Every process computes the gradient of its part of each batch; the parts are added in the order of the processes, so that a run with as many
processes gives the same numbers again, to the bit. Process 0 alone writes the checkpoint, one HDF5 file: weights, momenta, epoch, losses. HDF5
leaves holes for its tables between the data, and returns to them when it closes the file. After the last epoch there is none, since nothing
would be left to compute. With --torch the gradients are PyTorch's; everything else, and the file, stays as it is. A run that is restarted compares its loss with that of the whole run, if
this has left it in the directory.
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
CHECKPOINT, WHOLE_RUN = "training.h5", "loss.txt"

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


def write_checkpoint(path, epoch, weights, momenta, losses):
    begin = time.monotonic()
    temporary = path + ".tmp"
    with h5py.File(temporary, "w") as file:
        file.attrs["epoch"] = epoch
        file.attrs["processes"] = comm.size
        file["losses"] = losses
        for name in weights:
            file["weights/" + name] = weights[name]
            file["momenta/" + name] = momenta[name]
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    say(f"Checkpoint {epoch} written: {os.path.getsize(path)} bytes in {time.monotonic() - begin:.6f} s (epoch {epoch})")


def read_checkpoint(path, weights, momenta):
    with h5py.File(path, "r") as file:
        if file.attrs["processes"] != comm.size:
            raise ValueError(f"of a run with {file.attrs['processes']} processes, not {comm.size}: sums would differ in their last bits")
        for name in weights:
            if file["weights/" + name].shape != weights[name].shape:
                raise ValueError("of a network of another size: give the same --hidden")
            weights[name][...] = file["weights/" + name][...]
            momenta[name][...] = file["momenta/" + name][...]
        return int(file.attrs["epoch"]), list(file["losses"][...])


def main():
    given = arguments()
    begin = time.monotonic()
    path = os.path.join(given.dir, CHECKPOINT)
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
    epoch, losses = 0, []
    if given.restart:
        try:
            epoch, losses = read_checkpoint(path, weights, momenta)
        except (OSError, KeyError, ValueError) as error:
            say(f"ERROR: cannot restart from {path}: {error}")
            return 3
        say(f"Restarted from {path}: epoch {epoch}")
    while epoch < given.epochs:
        epoch += 1
        losses.append(train_epoch(epoch, slopes, weights, momenta, x[TESTED:], y[TESTED:]))
        say(f"Epoch {epoch} loss {losses[-1]:.12f}")
        if given.checkpoints and epoch < given.epochs and comm.rank == 0:
            write_checkpoint(path, epoch, weights, momenta, losses)
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
