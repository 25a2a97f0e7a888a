"""Streams chats with the official OpenAI client for Python and stamps every piece of text.

    chat.py URL STREAMS REQUESTS TOKENS > FILE

The file has, for each request, when it was sent, when its pieces came and the tokens of its usage;
and what the client made of the routes and errors that it has types for.
"""

import asyncio
import json
import sys
import time

import openai

TOPICS = ["a lighthouse", "an old mill", "two rivers", "the winter sea", "a clockmaker", "the last train", "a walled garden"]


async def attempt(work):
    """What came of it: "ok", or the error as a text."""
    try:
        await work
    except Exception as problem:  # whatever a client trips over is a finding
        return f"{type(problem).__name__}: {problem}"
    return "ok"


async def expect(kind, work):
    try:
        await work
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


async def listed(client, model):
    names = [m.id async for m in client.models.list()]
    assert model in names, names
    assert (await client.models.retrieve(model)).id == model


async def whole(client, model):
    answer = await client.chat.completions.create(model=model, max_tokens=8, messages=[{"role": "user", "content": "Say something."}])
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "length", answer
    assert answer.usage.completion_tokens == 8, answer.usage


async def completed(client, model):
    stream = await client.completions.create(
        model=model, prompt="Once upon a time", max_tokens=8, stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True}
    )
    last = [part async for part in stream][-1]
    assert last.usage.completion_tokens == 8, last


async def choices(client, model):
    answer = await client.chat.completions.create(
        model=model, max_completion_tokens=8, n=3, stop=["\n\n"], seed=7,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
    )
    assert [c.index for c in answer.choices] == [0, 1, 2], answer


async def surface(client, model):
    chat = client.chat.completions
    hello = [{"role": "user", "content": "Hello."}]
    return {
        "models": await attempt(listed(client, model)),
        "chat, not streamed": await attempt(whole(client, model)),
        "completions, streamed": await attempt(completed(client, model)),
        "three choices, stop, seed": await attempt(choices(client, model)),
        "unknown model": await attempt(expect(openai.NotFoundError, chat.create(model="no-such-model", messages=hello))),
        "prompt too long": await attempt(expect(openai.BadRequestError, chat.create(model=model, messages=[{"role": "user", "content": "word " * 300_000}]))),
        "negative temperature": await attempt(expect(openai.BadRequestError, chat.create(model=model, messages=hello, temperature=-1))),
    }


async def one(client, model, number, tokens):
    text = f"Story {number}: write a long tale of {TOPICS[number % len(TOPICS)]}, in plain words, for chapter {number * 7919 % 1000}."
    stamps, usage = [], None
    sent = time.time()
    stream = await client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": text}], max_tokens=tokens,
        stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True},
    )
    async for part in stream:
        if part.choices and part.choices[0].delta.content:
            stamps.append(time.time())
        usage = part.usage or usage
    return {"sent": sent, "stamps": stamps, "tokens": usage.completion_tokens}


async def load(client, model, streams, requests, tokens):
    numbers, results = iter(range(requests)), []

    async def user():
        for number in numbers:
            results.append(await one(client, model, number, tokens))

    await asyncio.gather(*(user() for _ in range(streams)))
    return results


async def main(url, streams, requests, tokens):
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        model = [m.id async for m in client.models.list()][0]
        checks = await surface(client, model)
        await asyncio.sleep(1)  # the watcher tells the checks from the load by the pause
        results = await load(client, model, streams, requests, tokens)
    json.dump({"version": openai.__version__, "checks": checks, "requests": results}, sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
