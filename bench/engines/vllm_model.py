"""Unpacks a GGUF model to the folder that vLLM loads: vllm_model.py FOLDER FILE OUT."""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

folder, file, out = sys.argv[1:]
AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(out)
# Quantized blocks cannot be saved, hence dequantize.
AutoModelForCausalLM.from_pretrained(
    folder,
    gguf_file=file,
    dtype=torch.bfloat16,
    quantization_config=GgufConfig(dequantize=True),
).save_pretrained(out)
