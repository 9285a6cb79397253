"""``driftwood models``: what is installed, what can be had, and bringing it here."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.cli.console import print_json, report_lines, say, size_text, table
from app.cli.session import Session

Fields = Mapping[str, Any]


def run_models(options: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    actions: dict[str, Callable[[Session, argparse.Namespace], Fields]] = {
        "list": _list,
        "get": _get,
        "add": _add,
        "remove": _remove,
        "path": _path,
        "info": _info,
    }
    with Session(options) as session:
        answer = actions[options.action](session, options)
    if options.json:
        print_json(answer)
    return 0


def _list(session: Session, options: argparse.Namespace) -> Fields:
    answer = session.run("models_list").fields
    if not options.json:
        print(_listing(answer))
    return answer


def _listing(answer: Fields) -> str:
    models: list[Fields] = answer["models"]
    parts: list[str] = []
    if models:
        rows = [("installed", "makes", "size", "quantisation", "needs", "licence")]
        rows += [_installed_row(one) for one in models]
        parts.append(table(rows))
        parts += [f"{one['name']}: {one['problem']}" for one in models if one["problem"]]
    else:
        parts.append("No model is installed.")
    offers = [one for one in answer["catalogue"] if not one["installed"]]
    if offers:
        rows = [("driftwood models get", "makes", "size", "quantisation", "needs", "licence")]
        rows += [_installed_row({**one, "problem": None}) for one in offers]
        parts.append(table(rows))
    free = size_text(answer["free_bytes"])
    parts.append(f"Folder: {answer['folder']} ({free} free on its disk)")
    return "\n\n".join(parts)


def _installed_row(one: Fields) -> tuple[str, ...]:
    need = one["need_bytes"]
    needs = "cannot be used" if one["problem"] else size_text(need) if need else "not known"
    what = "pictures" if one["kind"] == "image" else "text"
    return (one["name"], what, size_text(one["bytes"]), one["quant"], needs, one["licence"])


def _get(session: Session, options: argparse.Namespace) -> Fields:
    model: Fields = session.run("model_get", name=options.name).fields["model"]
    say(f"{model['name']} is ready: {size_text(model['bytes'])} in {model['path']}")
    return model


def _add(session: Session, options: argparse.Namespace) -> Fields:
    path = str(Path(options.name).expanduser().absolute())  # the worker has a folder of its own
    model: Fields = session.run("model_add", path=path, copy=not options.move).fields["model"]
    say(f"{model['name']} is ready: {size_text(model['bytes'])} in {model['path']}")
    return model


def _remove(session: Session, options: argparse.Namespace) -> Fields:
    answer = session.run("model_remove", name=options.name).fields
    say(f"{options.name} was deleted; that frees {size_text(answer['freed_bytes'])}.")
    return answer


def _path(session: Session, options: argparse.Namespace) -> Fields:
    folder = session.run("models_list").fields["folder"]
    if not options.json:
        print(folder)
    return {"folder": folder}


def _info(session: Session, options: argparse.Namespace) -> Fields:
    info: Fields = session.run("model_info", name=options.name).fields["info"]
    if not options.json:
        print("\n".join(report_lines({k: v for k, v in info.items() if v is not None})))
    return info
