from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from worker.bench import Bench

from engine.gpu.errors import DeviceLostError, OutOfMemoryError, ShaderError
from engine.models.inspection import InstalledModel
from engine.worker.engine_room import fitting_context
from engine.worker.failures import event_of

MakeModel = Callable[..., Path]


def test_hello_tells_version_and_process(bench: Bench) -> None:
    assert bench.ask("hello")["version"] == 1


def test_an_answer_streams_and_ends_once(bench: Bench) -> None:
    request = bench.chat("one two")
    names: list[str] = []
    while not names or names[-1] != "done":
        names.append(bench.next(request).event)
    assert names == ["progress", "started", "prefill", "text", "text", "done"]


def test_the_end_of_an_answer_names_the_model(bench: Bench) -> None:
    done = bench.end(bench.chat("one two"))
    assert (done["text"], done["model"], done["device"]) == ("one two", "tiny", "Fake")


def test_a_loaded_model_is_used_again(bench: Bench) -> None:
    bench.end(bench.chat("a"))
    bench.end(bench.chat("b"))
    bench.ask("load", model="tiny")
    assert [one for one in bench.engine.calls if one.startswith("load")] == ["load tiny 512"]


def test_another_context_loads_again(bench: Bench) -> None:
    bench.ask("load", model="tiny", context=128)
    bench.end(bench.chat("a"))
    bench.ask("load", model="tiny", context=256)
    loads = [one for one in bench.engine.calls if one.startswith("load")]
    assert loads == ["load tiny 128", "load tiny 256"]


@pytest.mark.parametrize(("context", "words"), [(513, "at most 512 tokens; 513"), (1, "too short")])
def test_a_context_out_of_range_is_a_wrong_setting(bench: Bench, context: int, words: str) -> None:
    error = bench.ask("load", model="tiny", context=context)
    assert error["code"] == "setting"
    assert words in error["message"]


def test_wrong_sampling_is_told_before_loading(bench: Bench) -> None:
    error = bench.end(bench.chat("a", sampling={"temperature": -1}))
    assert error["code"] == "setting"
    assert bench.end(bench.chat("a", sampling={"warmth": 1}))["code"] == "setting"
    assert bench.engines == []


def test_a_raw_prompt_needs_no_template(bench: Bench) -> None:
    done = bench.ask("complete", model="tiny", prompt="x y z")
    assert done["text"] == "x y z"
    assert "complete" in bench.engine.calls


def test_stop_ends_an_answer_with_what_was_said(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    bench.engine.gate.clear()
    request = bench.chat("one two")
    bench.until(request, "started")
    assert bench.ask("stop", target=request).event == "done"
    assert bench.end(request)["stop_reason"] == "stopped"


def test_stop_ends_what_still_waits_at_once(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    bench.engine.gate.clear()
    running, waiting = bench.chat("one"), bench.chat("two")
    bench.until(running, "started")
    bench.ask("stop", target=waiting)
    assert bench.end(waiting)["code"] == "cancelled"
    bench.engine.gate.set()
    assert bench.end(running)["stop_reason"] == "end"


def test_stopping_what_has_ended_does_nothing(bench: Bench) -> None:
    assert bench.ask("stop", target=12345).event == "done"


def test_memory_is_told_while_an_answer_runs(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    bench.engine.gate.clear()
    request = bench.chat("one")
    bench.until(request, "started")
    assert bench.ask("memory")["memory"]["device_name"] == "Fake"
    bench.engine.gate.set()
    bench.end(request)


def test_memory_is_told_before_the_gpu_is_open(bench: Bench) -> None:
    assert bench.ask("memory")["memory"]["total"] == 0
    assert bench.engines == []
    assert bench.ask("memory", open=True)["memory"]["device_name"] == "Fake"


def test_a_watch_opens_the_gpu_and_goes_on_until_stopped(bench: Bench) -> None:
    watch = bench.send("memory_watch", interval_ms=1)
    while bench.until(watch, "memory")["memory"]["device_name"] != "Fake":
        continue
    bench.ask("stop", target=watch)
    assert bench.end(watch).event == "done"


def test_a_model_that_does_not_fit_is_not_loaded(bench: Bench) -> None:
    bench.ask("memory", open=True)
    bench.engine.free = 1000
    error = bench.ask("load", model="tiny")
    assert error["code"] == "out_of_memory"
    assert "Choose a shorter context" in error["message"]
    assert not any(one.startswith("load") for one in bench.engine.calls)


def test_an_automatic_context_is_shortened_until_the_model_fits(bench: Bench) -> None:
    bench.ask("memory", open=True)
    tiny = bench.ask("models_list")["models"][0]
    bench.engine.free = tiny["need_bytes"] - 1
    error = bench.ask("load", model="tiny")
    assert error["code"] == "out_of_memory"  # 512 tokens are the shortest that is chosen by itself


@pytest.mark.parametrize(
    ("free", "context"), [(10**9, 4096), (1600, 1024), (1100, 512), (1025, 4096), (None, 4096)]
)
def test_how_an_automatic_context_fits(free: int | None, context: int) -> None:
    model = InstalledModel(
        name="m",
        path=Path("m.gguf"),
        bytes=1000,
        kind="text",
        family="llama",
        quant="F16",
        context=8192,
        licence="",
        parameters=0,
        problem=None,
        weight_bytes=514,
        kv_bytes_per_token=1,
    )
    memory = {"device_total": free, "device_used": None if free is None else 0}
    assert fitting_context(model, 4096, memory) == context


def test_a_broken_file_keeps_its_own_kind_of_error(bench: Bench, make_model: MakeModel) -> None:
    make_model("broken", broken=True)
    assert bench.ask("load", model="broken")["code"] == "model_file"
    assert bench.ask("load", model="nothing")["code"] == "not_found"
    assert bench.ask("count", model="broken", messages=[]).event == "error"


def test_a_lost_device_is_opened_anew(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    bench.engine.failure = DeviceLostError("The GPU was reset.")
    assert bench.end(bench.chat("a"))["code"] == "device_lost"
    assert bench.end(bench.chat("a"))["text"] == "a"
    assert len(bench.engines) == 2
    assert bench.engines[0].calls[-1] == "close"


def test_out_of_memory_frees_the_model(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    bench.engine.failure = OutOfMemoryError("The GPU is full.", 1, 2)
    assert bench.end(bench.chat("a"))["code"] == "out_of_memory"
    assert bench.engine.calls[-1] == "unload"
    assert bench.ask("models_list")["models"][0]["loaded"] is False


def test_a_fault_of_ours_ends_the_request_but_not_the_worker(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    bench.engine.failure = ZeroDivisionError("oops")
    error = bench.end(bench.chat("a"))
    assert error["code"] == "internal"
    assert "ZeroDivisionError" in error["details"]
    assert "oops" not in error["message"]
    bench.engine.failure = None
    assert bench.end(bench.chat("a"))["text"] == "a"


def test_without_a_gpu_the_doctor_says_so(bench: Bench) -> None:
    bench.no_gpu = True
    report = bench.ask("doctor")["report"]
    assert report["device"] is None
    assert report["problems"] == ["No usable GPU was found."]
    assert bench.end(bench.chat("a"))["code"] == "no_adapter"


def test_settings_take_effect_at_the_next_load(bench: Bench) -> None:
    bench.end(bench.chat("a"))
    bench.ask("settings", device="RTX", without=["fusion"])
    bench.end(bench.chat("a"))
    assert bench.engine.settings.device == "RTX"
    assert bench.engine.settings.without == ("fusion",)
    assert bench.ask("settings", without=["magic"])["code"] == "setting"
    bench.ask("settings", device="")
    bench.ask("doctor")
    assert bench.engine.settings.device is None


def test_unload_frees_the_model(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    bench.ask("unload")
    assert bench.engine.calls[-1] == "unload"


def test_the_list_tells_models_catalogue_and_space(bench: Bench, make_model: MakeModel) -> None:
    make_model("broken", broken=True)
    bench.ask("load", model="tiny")
    listed = bench.ask("models_list")
    broken, tiny = listed["models"]
    assert tiny["loaded"] is True
    assert tiny["loaded_context"] == 512
    parts = tiny["weight_bytes"] + 512 * tiny["kv_bytes_per_token"] + tiny["activation_bytes"]
    assert tiny["need_bytes"] == parts
    assert broken["problem"]
    assert broken["need_bytes"] is None
    assert listed["free_bytes"] > 0
    starter = listed["catalogue"][0]
    assert starter["name"] == "smollm2-135m-instruct"
    parts = starter["weight_bytes"] + 4096 * starter["kv_bytes_per_token"]
    assert starter["need_bytes"] == parts + starter["activation_bytes"]


def test_a_download_runs_beside_an_answer_and_can_be_stopped(bench: Bench) -> None:
    download = bench.send("model_get", name="smollm2-135m-instruct")
    assert bench.until(download, "progress")["phase"] == "downloading"
    assert bench.end(bench.chat("a"))["text"] == "a"
    bench.ask("stop", target=download)
    assert bench.end(download)["code"] == "cancelled"
    bench.download_gate.set()
    assert bench.ask("model_get", name="smollm2-135m-instruct")["model"]["name"] == "tiny"
    assert bench.ask("model_get", name="nothing")["code"] == "not_found"


def test_what_came_of_a_download_can_be_forgotten(bench: Bench, tmp_path: Path) -> None:
    folder = bench.server._models.store.folder
    for ending in (".gguf.whl.part", ".gguf.whl.part.json"):
        (folder / f"smollm2-135m-instruct{ending}").write_bytes(b"1234")
    assert bench.ask("model_forget", name="smollm2-135m-instruct")["freed_bytes"] == 8
    assert [one.name for one in folder.iterdir()] == ["tiny.gguf"]
    assert bench.ask("model_forget", name="owner/repo/file.gguf")["freed_bytes"] == 0
    assert bench.ask("model_forget", name="nothing")["code"] == "not_found"


def test_a_file_is_added_told_about_and_removed(
    bench: Bench, make_model: MakeModel, tmp_path: Path
) -> None:
    path = make_model("other").rename(tmp_path / "other.gguf")
    path.write_bytes(path.read_bytes() + b"\0" * 32)
    added = bench.ask("model_add", path=str(path))["model"]
    assert added["name"] == "other"
    assert bench.ask("model_info", name="other")["info"]["architecture"] == "llama"
    assert bench.ask("model_remove", name="other")["freed_bytes"] == added["bytes"]
    assert bench.ask("model_remove", name="other")["code"] == "not_found"


def test_removing_the_loaded_model_frees_it_first(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    assert bench.ask("model_remove", name="Tiny").event == "done"
    assert bench.engine.calls[-1] == "unload"


def test_a_loaded_model_whose_file_was_deleted_is_freed(bench: Bench) -> None:
    bench.ask("load", model="tiny")
    Path(bench.ask("models_list")["models"][0]["path"]).unlink()
    assert bench.ask("models_list")["models"] == []
    bench.ask("doctor")  # the engine's thread has done what stood before it
    assert bench.engine.calls[-1] == "unload"


def test_another_file_of_the_same_name_is_loaded_anew(
    bench: Bench, make_model: MakeModel, tmp_path: Path
) -> None:
    bench.ask("load", model="tiny")
    path = Path(bench.ask("models_list")["models"][0]["path"])
    path.write_bytes(path.read_bytes() + b"\0" * 32)
    bench.ask("load", model="tiny")
    assert bench.engine.calls.count("load tiny 512") == 2


def test_the_models_folder_can_be_moved(bench: Bench, tmp_path: Path) -> None:
    bench.ask("load", model="tiny")
    new = tmp_path / "new"
    assert bench.ask("models_move", folder=str(new))["folder"] == str(new)
    assert bench.ask("models_list")["models"][0]["path"] == str(new / "tiny.gguf")


def test_a_bench_takes_its_options(bench: Bench) -> None:
    report = bench.ask("bench", kind="text", model="tiny", prompt_tokens=92, tokens=8)["report"]
    assert report == {"model": "tiny", "kind": "text", "cancelled": False} | {
        "prompt_tokens": 92,
        "tokens": 8,
    }
    assert "load tiny 100" in bench.engine.calls
    bench.ask("bench", kind="text", model="tiny", prompt_tokens=92, tokens=8, context=200)
    assert "load tiny 200" in bench.engine.calls
    assert bench.ask("bench", kind="kernels")["report"]["kind"] == "kernels"
    assert bench.ask("bench", kind="text")["code"] == "usage"
    assert bench.ask("bench", kind="magic")["code"] == "usage"


def test_a_long_complaint_of_a_driver_is_cut_to_what_can_be_read() -> None:
    event = event_of(1, ShaderError("It does not compile.\n\n" + "fn main() {}\n" * 500))
    assert event["message"] == "It does not compile."
    assert "fn main" in event["details"]
    assert len(event_of(1, ShaderError("word " * 500))["message"]) <= 401
