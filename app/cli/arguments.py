"""What the command line understands."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final, NoReturn

from engine.worker.protocol import PREDICTIONS, SAMPLERS, TECHNIQUES

WINDOW_OPTIONS: Final = ("--backend", "--device", "--without", "--verbose")
BENCHES: Final = ("text", "image", "kernels", "quality")
Add = Callable[..., Any]


class UsageError(Exception):
    """The words of the command line make no sense; exit status 2."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises :class:`UsageError` instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        raise UsageError(f"{message}. Try: {self.prog} --help")


def parse(words: list[str]) -> argparse.Namespace:
    """Read the command line. Raises UsageError; ``--help`` leaves by SystemExit(0)."""
    return _parser().parse_args(words)


def opens_window(words: list[str]) -> bool:
    """Whether these words open the window: none, or only options of how the engine runs."""
    return not words or words[0].split("=")[0] in WINDOW_OPTIONS


def parse_window(words: list[str]) -> argparse.Namespace:
    """Read the options of the window: backend, device, without, verbose. Raises UsageError."""
    parser = Parser(prog="driftwood", description="Opens the window.")
    _add_engine_options(parser)
    return parser.parse_args(words)


def _parser() -> Parser:
    parser = Parser(
        prog="driftwood",
        description="Chat with a language model on your own GPU. Without a command the window "
        "opens; it takes --backend, --device, --without and --verbose.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    common = _common()
    _chat(commands.add_parser("chat", parents=[common], help="answer a prompt, or a conversation"))
    _image(commands.add_parser("image", parents=[common], help="make pictures from a prompt"))
    _models(commands.add_parser("models", parents=[common], help="manage model files"))
    memory = commands.add_parser("memory", parents=[common], help="GPU memory in use and free")
    memory.add_argument("--watch", action="store_true", help="go on until Ctrl-C")
    commands.add_parser("doctor", parents=[common], help="what GPU and driver were found")
    _bench(commands.add_parser("bench", parents=[common], help="measure the engine"))
    return parser


def _common() -> Parser:
    common = Parser(add_help=False)
    group = common.add_argument_group("for every command")
    group.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    _add_engine_options(group)
    return common


def _add_engine_options(group: Any) -> None:
    """How the engine runs; the same for the window and every command."""
    group.add_argument("--backend", choices=("wgpu", "dawn"), help="which WebGPU to run on")
    group.add_argument("--device", metavar="TEXT", help="use the GPU whose name contains TEXT")
    group.add_argument(
        "--without",
        metavar="LIST",
        type=_techniques,
        default=[],
        help=f"switch techniques off, with commas between: {', '.join(TECHNIQUES)}",
    )
    group.add_argument("--verbose", action="store_true", help="say more on stderr")


def _chat(parser: argparse.ArgumentParser) -> None:
    add: Add = parser.add_argument
    add("prompt", nargs="?", metavar="PROMPT", help="without it: from stdin, or a conversation")
    add("--model", metavar="NAME|FILE", help="an installed model, or a GGUF file")
    add("--system", metavar="TEXT", help="what the model is told before the conversation")
    add("--temperature", type=_at_least(0.0), metavar="T", help="0: always the likeliest token")
    add("--top-k", type=_whole(0), metavar="K", help="only the K likeliest tokens; 0: all")
    add("--top-p", type=_between(0.0, 1.0), metavar="P", help="only the likeliest of this share")
    add("--min-p", type=_between(0.0, 1.0), metavar="P", help="only this likely against the best")
    add("--seed", type=_whole(0), metavar="N", help="the same seed gives the same answer")
    add("--max-tokens", type=_whole(1), metavar="N", help="the longest answer")
    add("--context", type=_whole(1), metavar="N", help="tokens that the model can look back on")
    add("--raw", action="store_true", help="go on with PROMPT as it is, without a chat template")


def _image(parser: argparse.ArgumentParser) -> None:
    add: Add = parser.add_argument
    add("prompt", metavar="PROMPT", help="what to draw; -: from stdin")
    add("-o", "--output", required=True, metavar="FILE.png", help="the picture; more get -2, -3")
    add("--model", metavar="NAME|PATH", help="an installed model, a checkpoint or its folder")
    add("--negative", default="", metavar="TEXT", help="what to stay away from")
    add("--steps", type=_whole(1), metavar="N", help="steps of the denoiser")
    add("--guidance", type=_at_least(0.0), metavar="G", help="pull of the prompt; 0 or 1: none")
    add("--seed", type=_whole(0), metavar="N", help="the same seed gives the same picture")
    add("--width", type=_whole(1), metavar="W", help="in pixels, a multiple of 8")
    add("--height", type=_whole(1), metavar="H", help="in pixels, a multiple of 8")
    add("--sampler", choices=SAMPLERS, metavar="NAME", help=", ".join(SAMPLERS))
    add("--count", type=_whole(1), metavar="N", help="how many; seeds count up")
    add(
        "--latents",
        metavar="FILE.npy",
        help="start from this noise instead of the seed's; it tells size and count itself",
    )
    add("--init", metavar="FILE", help="a picture to start from")
    add("--strength", type=_between(0.0, 1.0), metavar="S", help="how much of it is made anew")
    add("--mask", metavar="FILE", help="only the white parts of this picture are made anew")
    add(
        "--lora",
        action="append",
        default=[],
        metavar="FILE[:WEIGHT]",
        help="add this LoRA, by 1 or this weight; may be repeated",
    )
    add("--vae", metavar="FILE", help="an autoencoder to use instead of the model's own")
    add("--clip-skip", type=_whole(1), metavar="N", help="1: the text encoder's last layer")
    add(
        "--prediction",
        choices=PREDICTIONS,
        help="what the denoiser predicts, where its file does not say and pictures become noise",
    )


def _models(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    common = _common()

    def action(name: str, text: str, argument: str | None = None) -> argparse.ArgumentParser:
        one = actions.add_parser(name, parents=[common], help=text)
        if argument:
            one.add_argument("name", metavar=argument)
        return one

    action("list", "what is installed, and what can be had")
    action("get", "download a model of the catalogue", "NAME")
    action("add", "import a GGUF file, a checkpoint or a diffusers folder", "PATH").add_argument(
        "--move", action="store_true", help="move the file instead of copying it"
    )
    action("remove", "delete a model", "NAME")
    action("path", "print the models folder")
    action("info", "everything about one model", "NAME|PATH")


def _bench(parser: argparse.ArgumentParser) -> None:
    add: Add = parser.add_argument
    add("kind", choices=BENCHES, help="what to measure")
    add("--model", metavar="NAME|PATH", help="an installed model, or a file or folder")
    add("--prompt-tokens", type=_whole(1), metavar="N", help="length of the prompt")
    add("--tokens", type=_whole(1), metavar="N", help="length of the answer")
    add("--context", type=_whole(1), metavar="N", help="tokens to reserve; usually what is needed")
    add("--width", type=_whole(1), metavar="W", help="of the picture")
    add("--height", type=_whole(1), metavar="H", help="of the picture")
    add("--steps", type=_whole(1), metavar="N", help="of the picture")


def _techniques(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TECHNIQUES:
            raise argparse.ArgumentTypeError(
                f'there is no technique "{name}"; there are {", ".join(TECHNIQUES)}'
            )
    return names


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f'"{text}" is not a whole number') from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too small; the least is {least}")
        return number

    return read


def _at_least(least: float) -> Callable[[str], float]:
    return _between(least, float("inf"))


def _between(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f'"{text}" is not a number') from None
        if not least <= number <= most or number == float("inf"):
            limit = f"at least {least:g}" if most == float("inf") else f"{least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"{text} is out of range; it must be {limit}")
        return number

    return read
