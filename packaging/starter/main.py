"""The jobs of the starter model's making."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .schedule import Clock

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "assets" / "starter-image"


def main(arguments: Sequence[str]) -> int:
    """Run one job; the exit status."""
    clock = Clock.begin(0.0)  # before the libraries are loaded: that takes time too
    options = _parser().parse_args(arguments)
    job = _JOBS[options.job]
    from .dataset import DataSetError
    from .sources import SourceError

    try:
        job(options, clock)
    except (SourceError, DataSetError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _fetch(options: argparse.Namespace, clock: Clock) -> None:
    from .sources import fetch_all

    fetch_all(options.sources)


def _build(options: argparse.Namespace, clock: Clock) -> None:
    from . import dataset
    from .meaning import add_meaning
    from .pictures import build

    items = build(options.sources, options.data, options.processes)
    print(f"{len(items)} pictures", flush=True)
    items = add_meaning(options.data, items, options.sources / "minilm")
    dataset.save_items(options.data, items)


def _train(options: argparse.Namespace, clock: Clock) -> None:
    from . import train_unet

    job = train_unet.prepare if options.job == "prepare" else train_unet.train
    fields = {name: value for name, value in vars(options).items() if name != "job"}
    fields["part"] = tuple(options.part)
    job(train_unet.Options(**fields), Clock(clock.started, options.seconds))


def _train_vae(options: argparse.Namespace, clock: Clock) -> None:
    from . import train_vae

    fields = {name: value for name, value in vars(options).items() if name != "job"}
    train_vae.train(train_vae.Options(**fields), Clock(clock.started, options.seconds))


def _fresh(options: argparse.Namespace, clock: Clock) -> None:
    from .fresh import make_fresh

    make_fresh(options.data, options.folder)


def _assemble(options: argparse.Namespace, clock: Clock) -> None:
    from .assemble import assemble

    for network, count in assemble(options.model, options.run, options.folder).items():
        print(f"{network}: {count / 1e6:.2f} million parameters")


def _blend(options: argparse.Namespace, clock: Clock) -> None:
    from .assemble import blend

    blend(options.model, options.other, options.folder)


def _sample(options: argparse.Namespace, clock: Clock) -> None:
    from .sample import sheet

    sheet(options.picture, options.models or [SHIPPED], options.way, options.count)


_JOBS = {
    "fetch": _fetch,
    "build": _build,
    "fresh": _fresh,
    "train-vae": _train_vae,
    "prepare": _train,
    "train": _train,
    "assemble": _assemble,
    "blend": _blend,
    "sample": _sample,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python packaging/starter", description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)
    fetch = jobs.add_parser("fetch", help="fetch and unpack the sources")
    fetch.add_argument("sources", type=Path)
    build = jobs.add_parser("build", help="make the data set of the sources")
    build.add_argument("sources", type=Path)
    build.add_argument("data", type=Path)
    build.add_argument("--processes", type=int, default=2)
    fresh = jobs.add_parser("fresh", help="make a model folder with random weights")
    fresh.add_argument("data", type=Path)
    fresh.add_argument("folder", type=Path)
    vae = jobs.add_parser("train-vae", help="train an autoencoder from scratch")
    vae.add_argument("data", type=Path)
    vae.add_argument("out", type=Path)
    vae.add_argument("--seconds", type=float, default=300.0, help="for everything")
    vae.add_argument("--batch", type=int, default=96)
    vae.add_argument("--pictures", type=int, help="use a few only")
    vae.add_argument("--steps", type=int, help="end after so many")
    _add_train(jobs.add_parser("prepare", help="fill the caches for a training run"))
    _add_train(jobs.add_parser("train", help="train UNet and text encoder until a deadline"))
    assemble = jobs.add_parser("assemble", help="make a model folder of a run's weights")
    assemble.add_argument("run", type=Path, help="what the training wrote")
    assemble.add_argument("folder", type=Path, help="the new folder")
    assemble.add_argument("--model", type=Path, default=SHIPPED, help="the folder it went on from")
    blend = jobs.add_parser("blend", help="make a model folder half way between two")
    blend.add_argument("model", type=Path)
    blend.add_argument("other", type=Path, help="what the model became by more training")
    blend.add_argument("folder", type=Path, help="the new folder")
    sample = jobs.add_parser("sample", help="draw the fixed prompts, models side by side")
    sample.add_argument("picture", type=Path, help="the sheet, a PNG file")
    sample.add_argument("models", type=Path, nargs="*", help="folders; what ships if none")
    sample.add_argument("--way", choices=("engine", "diffusers"), default="engine")
    sample.add_argument("--count", type=int, default=48, help="of the prompts")
    return parser


def _add_train(train: argparse.ArgumentParser) -> None:
    train.add_argument("data", type=Path)
    train.add_argument("out", type=Path)
    train.add_argument("--model", type=Path, default=SHIPPED, help="the folder to go on from")
    train.add_argument("--work", type=Path, help="keeps rows and state for a later run")
    train.add_argument("--part", type=float, nargs=2, default=(0.0, 1.0), metavar="SHARE")
    train.add_argument("--seconds", type=float, default=540.0, help="for everything")
    train.add_argument("--rate", type=float, default=4e-4)
    train.add_argument("--batch", type=int, default=512)
    train.add_argument("--boost", type=float, default=2.0, help="of everyday things' weight")
    train.add_argument("--not-compiled", dest="compiled", action="store_false")
    train.add_argument("--pictures", type=int, help="use a few only")
    train.add_argument("--steps", type=int, help="end after so many")
