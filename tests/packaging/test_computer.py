"""What dev.py finds missing on a computer, and what it says or does about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from computer import (
    DRIVER,
    LIBRARIES,
    advice,
    driver_folders,
    driver_is_there,
    groups_for,
    has_screen,
    install_command,
    is_tested,
    missing_libraries,
    opens_window,
    venv_package,
)

EVERYTHING = ("vulkan", "qt", "x11", "wayland")


def apt_names(groups: tuple[str, ...], present: set[str], driver: bool = True) -> list[str]:
    """What would be installed where only `present` files are."""
    return [one.apt for one in missing_libraries(groups, present.__contains__, driver)]


@pytest.mark.parametrize(
    ("arguments", "window"),
    [
        ([], True),
        (["--verbose"], True),
        (["--help"], False),
        (["--version"], False),
        (["chat", "Hello"], False),
        (["doctor", "--json"], False),
    ],
)
def test_only_the_window_needs_a_screen(arguments: list[str], window: bool) -> None:
    assert opens_window(arguments) is window


@pytest.mark.parametrize(
    ("environment", "platform", "screen"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"QT_QPA_PLATFORM": "offscreen"}, "linux", True),
        ({"QT_QPA_PLATFORM": "xcb"}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_screen_is_found(environment: dict[str, str], platform: str, screen: bool) -> None:
    assert has_screen(environment, platform) is screen


@pytest.mark.parametrize(
    ("job", "environment", "groups"),
    [
        ("command", {"DISPLAY": ":0"}, ("vulkan",)),
        ("test", {}, ("vulkan", "qt")),
        ("bundle", {}, EVERYTHING),
        ("window", {"DISPLAY": ":0"}, ("vulkan", "qt", "x11")),
        ("window", {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, ("vulkan", "qt", "wayland")),
        ("window", {"WAYLAND_DISPLAY": "w", "QT_QPA_PLATFORM": "xcb"}, ("vulkan", "qt", "x11")),
        ("window", {"QT_QPA_PLATFORM": "offscreen"}, ("vulkan", "qt")),
    ],
)
def test_a_job_needs_only_its_libraries(
    job: str, environment: dict[str, str], groups: tuple[str, ...]
) -> None:
    assert groups_for(job, environment) == groups


def test_nothing_is_installed_where_all_is_there() -> None:
    files = {one.file for group in LIBRARIES.values() for one in group}
    assert apt_names(EVERYTHING, files) == []


def test_only_what_lacks_is_installed() -> None:
    files = {one.file for one in LIBRARIES["qt"]} - {"libEGL.so.1"}
    assert apt_names(("vulkan", "qt"), files) == ["libvulkan1", "libegl1"]


def test_a_software_driver_is_installed_only_where_there_is_no_other() -> None:
    assert apt_names(("vulkan",), {"libvulkan.so.1"}, driver=False) == ["mesa-vulkan-drivers"]
    assert apt_names(("vulkan",), {"libvulkan.so.1"}, driver=True) == []


def test_all_that_the_window_checks_for_can_be_installed() -> None:
    from app.shell.early import LIBRARIES as OF_QT
    from app.shell.early import X11_LIBRARIES

    known = {(one.file, one.apt) for group in LIBRARIES.values() for one in group}
    assert {*OF_QT.items(), *X11_LIBRARIES.items()} <= known


def test_each_package_manager_is_asked_in_its_own_words() -> None:
    assert install_command("apt", ["a", "b", "a"], ("sudo",)) == [
        *("sudo", "apt-get", "install", "-y", "--no-install-recommends"),
        *("a", "b"),
    ]
    assert install_command("dnf", ["a"]) == ["dnf", "install", "-y", "a"]
    assert install_command("pacman", ["a"]) == ["pacman", "-S", "--needed", "a"]


def test_a_person_without_rights_gets_the_exact_command() -> None:
    text = advice([LIBRARIES["vulkan"][0], DRIVER], "apt", is_root=False)
    assert "lacks libvulkan1, mesa-vulkan-drivers" in text
    assert text.endswith(
        "sudo apt-get install -y --no-install-recommends libvulkan1 mesa-vulkan-drivers"
    )


def test_where_the_package_manager_is_unknown_the_files_are_named() -> None:
    text = advice([LIBRARIES["vulkan"][0]], None, is_root=True)
    assert text.startswith("This computer lacks libvulkan.so.1.")


def test_debians_split_off_part_of_python_has_the_version_in_its_name() -> None:
    assert venv_package((3, 13)).apt == "python3.13-venv"


def test_pythons_that_the_locks_were_made_for() -> None:
    assert [is_tested((3, minor)) for minor in (10, 11, 14, 15)] == [False, True, True, False]


def test_drivers_are_looked_for_where_the_loader_looks(tmp_path: Path) -> None:
    environment = {"XDG_DATA_DIRS": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "home")}
    assert tmp_path / "vulkan" / "icd.d" in driver_folders(environment)
    (tmp_path / "vulkan" / "icd.d").mkdir(parents=True)
    (tmp_path / "vulkan" / "icd.d" / "some_icd.json").touch()
    assert driver_is_there(environment)


def test_a_driver_named_by_hand_counts() -> None:
    assert driver_is_there({"VK_DRIVER_FILES": "/somewhere/icd.json"})
