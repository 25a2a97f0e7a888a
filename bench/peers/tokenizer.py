"""Writes a Hugging Face tokenizer folder that cuts text as the simulated engine does.

    tokenizer.py VOCAB DIR            writes tokenizer.json and tokenizer_config.json
    tokenizer.py --check DIR URL      compares it with the server's /tokenize (needs the package tokenizers)

Load generators count tokens by themselves and want such a folder. With the engine's own
vocabulary their counts are the server's, and nothing has to be downloaded.
"""

import json
import pathlib
import sys
import urllib.request

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
PIECE = r"\n{1,4}| {2,8}| ?[\p{L}\p{M}]+|[0-9]{1,3}| ?[^\p{L}\p{M}0-9 \n]+| "
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SAMPLES = [
    "The quick brown fox jumps over the lazy dog.",
    "In 1815, on the 18th of June, 73,000 men… \n\n  and   more;\ttabs, “quotes”, naïve Ærøskøbing.",
    "x = {'a': [1, 22, 333, 4444]}\n\n\n\n\nreturn   x  # 世界 🌍",
]


def byte_letters():
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    rest = (byte for byte in range(256) if byte not in letters)
    letters.update({byte: chr(256 + i) for i, byte in enumerate(rest)})
    return letters


def tokens(listed):
    """All tokens as bytes, in the order of their ids: those made by rule, then the list."""
    yield from (bytes([b]) for b in range(256))
    yield from (s.encode() for s in SPECIAL)
    yield from (b" " * n for n in range(2, 9))
    yield from (b"\n" * n for n in range(2, 5))
    yield from (b"%02d" % n for n in range(100))
    yield from (b"%03d" % n for n in range(1000))
    yield from listed.removesuffix(b"\n").split(b"\n")


def write(vocab_file, folder):
    letters = byte_letters()
    vocab = {}
    for number, token in enumerate(tokens(vocab_file.read_bytes())):
        text = token.decode() if token.decode(errors="replace") in SPECIAL else "".join(letters[b] for b in token)
        vocab[text] = number
    special = [
        {"id": vocab[s], "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for s in SPECIAL
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PIECE}, "behavior": "Isolated", "invert": False}
    # WordPiece without a prefix for continued words takes the longest token from the left.
    model = {
        "type": "WordPiece", "unk_token": SPECIAL[2], "continuing_subword_prefix": "",
        "max_input_chars_per_word": 1 << 20, "vocab": vocab,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": None, "decoder": level, "model": model,
    }))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1 << 20, "clean_up_tokenization_spaces": False,
        "bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "pad_token": SPECIAL[2], "unk_token": SPECIAL[2],
        "chat_template": TEMPLATE,
    }))


def check(folder, url):
    from tokenizers import Tokenizer

    ours = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in SAMPLES:
        body = json.dumps({"prompt": text, "add_special_tokens": False}).encode()
        request = urllib.request.Request(url + "/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            theirs = json.load(answer)["tokens"]
        if ours.encode(text, add_special_tokens=False).ids != theirs:
            sys.exit(f"tokenizer.py: the folder and the server cut {text!r} differently")
    print(f"tokenizer.py: {len(SAMPLES)} texts are cut as the server cuts them", file=sys.stderr)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--check", folder, url]:
            check(pathlib.Path(folder), url)
        case [vocab, folder]:
            write(pathlib.Path(vocab), pathlib.Path(folder))
        case _:
            sys.exit(__doc__)
