#!/usr/bin/env python3
"""Trains a network of five layers with Keras on TensorFlow, with a checkpoint after every epoch but the last.

With --sharded, Keras writes the state in several files with an index, as it does for models that are larger than a file should be. With --keep
best, a checkpoint is written only if the loss of the samples that are not trained on is the smallest so far. The state is the weights and their
momenta, 2 numbers of 4 bytes for each parameter. The samples are points around ten centres, drawn from a fixed seed, so that nothing is
downloaded. All operations are deterministic: a restarted run must end with the loss of the whole run, to the bit.
"""

import os

# the log of TensorFlow is not the program's output
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import argparse
import json
import shutil
import sys
import time

CLASSES, WIDTH, LAYERS, SAMPLES, TESTED, BATCH = 10, 64, 4, 1800, 300, 100
LEAST_ACCURACY = 0.9
WHOLE_RUN, STATE, NAME = "keras-loss.txt", "keras-state.json", "keras.weights"


def say(text):
    print(text, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10, help="last epoch, also after a restart")
    parser.add_argument("--hidden", type=int, default=128, help="neurons of each hidden layer")
    parser.add_argument("--checkpoints", type=int, choices=(0, 1), default=1, help="1: write one after every epoch but the last")
    parser.add_argument("--dir", default=".", help="directory of the checkpoint")
    parser.add_argument("--sharded", type=int, default=0, metavar="FILES", help="about this number of files, and an index")
    parser.add_argument("--keep", choices=("last", "best"), default="last", help="best: write one only if the loss of the tested samples is the smallest so far")
    parser.add_argument("--restart", action="store_true", help="continue from the checkpoint in the directory")
    given = parser.parse_args()
    if given.epochs < 1 or given.hidden < 1 or given.sharded < 0:
        parser.error("--epochs and --hidden are 1 or more, --sharded is not negative")
    return given


def samples(np):
    random = np.random.default_rng(1)
    centres = random.normal(0.0, 1.0, (CLASSES, WIDTH))
    y = random.integers(0, CLASSES, SAMPLES)
    return (centres[y] + random.normal(0.0, 2.0, (SAMPLES, WIDTH))).astype("float32"), y


def network(keras, hidden):
    inner = [keras.layers.Dense(hidden, activation="relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((WIDTH,)), *inner, keras.layers.Dense(CLASSES)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, metrics=["accuracy"])
    # so that a checkpoint also restores the momenta
    model.optimizer.build(model.trainable_variables)
    return model


def write_checkpoint(model, given, epoch, best, state_bytes):
    """Writes all files into a directory of their own first; then they replace the older ones, the one with the epoch last."""
    begin = time.monotonic()
    temporary = os.path.join(given.dir, "keras-new")
    os.makedirs(temporary)
    if given.sharded:
        # the size is in gigabytes, and a file is closed before it exceeds it
        model.save_weights(os.path.join(temporary, NAME + ".json"), max_shard_size=1.2 * state_bytes / given.sharded / 1e9)
    else:
        model.save_weights(os.path.join(temporary, NAME + ".h5"))
    with open(os.path.join(temporary, STATE), "w", encoding="ascii") as file:
        json.dump({"epoch": epoch, "best": best}, file)
    size = 0
    for name in sorted(os.listdir(temporary), key=lambda name: name == STATE):
        path = os.path.join(temporary, name)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        size += os.path.getsize(path)
        os.replace(path, os.path.join(given.dir, name))
    shutil.rmtree(temporary)
    say(f"Checkpoint {epoch} written: {size} bytes in {time.monotonic() - begin:.6f} s (epoch {epoch})")


def read_checkpoint(model, given):
    """Gives the epoch, and the smallest loss of the tested samples."""
    with open(os.path.join(given.dir, STATE), encoding="ascii") as file:
        state = json.load(file)
    model.load_weights(os.path.join(given.dir, NAME + (".json" if given.sharded else ".h5")))
    return state["epoch"], state["best"]


def is_as_whole_run(given, loss):
    """Compares the loss of a restarted run with that of the whole run, which leaves it in the directory."""
    path = os.path.join(given.dir, WHOLE_RUN)
    if not given.checkpoints:
        return True
    if not given.restart:
        with open(path, "w", encoding="ascii") as file:
            file.write(loss + "\n")
        return True
    if not os.path.exists(path):
        return True
    with open(path, encoding="ascii") as file:
        expected = file.read().strip()
    say(f"Loss of the whole run = {expected}")
    return loss == expected


def main():
    given = arguments()
    try:
        import keras
        import numpy as np
        import tensorflow as tf
    except ImportError as error:
        say(f"ERROR: Keras with TensorFlow is not there: {error}; pip install tensorflow")
        return 3
    begin = time.monotonic()
    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    x, y = samples(np)
    model = network(keras, given.hidden)
    parameters = model.count_params()
    state_bytes = 2 * 4 * parameters
    say(f"Parameters = {parameters}")
    epoch, best = 0, None
    if given.restart:
        try:
            epoch, best = read_checkpoint(model, given)
        except (OSError, KeyError, ValueError) as error:
            say(f"ERROR: cannot restart from {given.dir}: {error}")
            return 3
        say(f"Restarted from {given.dir}: epoch {epoch}")
    while epoch < given.epochs:
        epoch += 1
        order = np.random.default_rng(1000 + epoch).permutation(SAMPLES - TESTED) + TESTED
        model.fit(x[order], y[order], batch_size=BATCH, shuffle=False, verbose=0)
        loss, accuracy = (float(value) for value in model.evaluate(x[:TESTED], y[:TESTED], batch_size=BATCH, verbose=0))
        say(f"Epoch {epoch} loss {loss:.12f}")
        if not given.checkpoints or epoch == given.epochs:
            continue
        if given.keep == "best" and best is not None and loss >= best:
            say(f"No checkpoint: loss of the tested samples {loss:.6f}, smallest {best:.6f}")
            continue
        best = loss if best is None else min(best, loss)
        write_checkpoint(model, given, epoch, best, state_bytes)
    if given.checkpoints:
        say(f"State of a checkpoint = {state_bytes} bytes")
    well = is_as_whole_run(given, loss.hex()) and accuracy >= LEAST_ACCURACY
    say(f"Loss = {loss.hex()}")
    say(f"Accuracy = {accuracy:.4f}")
    say(f"Time in seconds = {time.monotonic() - begin:.3f}")
    say(f"Verification = {'SUCCESSFUL' if well else 'FAILED'}")
    return 0 if well else 1


sys.exit(main())
