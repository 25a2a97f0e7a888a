"""Serves a model with the llama.cpp server inside xllamacpp, by llama-server's own flags."""

import argparse
import signal

import xllamacpp

flags = argparse.ArgumentParser(allow_abbrev=False)
flags.add_argument("-m", "--model", required=True)
flags.add_argument("--alias", required=True)
flags.add_argument("--host", required=True)
flags.add_argument("--port", type=int, required=True)
flags.add_argument("-c", "--ctx-size", type=int, required=True)
flags.add_argument("-np", "--parallel", type=int, required=True)
flags.add_argument("-t", "--threads", type=int, required=True)
flags.add_argument("-b", "--batch-size", type=int)
flags.add_argument("-ub", "--ubatch-size", type=int)
chosen = flags.parse_args()

settings = xllamacpp.CommonParams()
settings.model.path = chosen.model
settings.model_alias = {chosen.alias}
settings.hostnames = [chosen.host]
settings.port = chosen.port
settings.n_ctx = chosen.ctx_size
settings.n_parallel = chosen.parallel
settings.cpuparams.n_threads = chosen.threads
if chosen.batch_size:
    settings.n_batch = chosen.batch_size
if chosen.ubatch_size:
    settings.n_ubatch = chosen.ubatch_size
settings.endpoint_metrics = True
settings.endpoint_slots = True

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
server = xllamacpp.Server(settings)  # serves until the process ends
signal.sigwait({signal.SIGTERM, signal.SIGINT})
