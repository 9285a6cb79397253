#!/bin/sh
# Put Driftwood into your desktop's menu, for you alone; run it again after moving the folder.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
share=${XDG_DATA_HOME:-$HOME/.local/share}
mkdir -p "$share/applications" "$share/icons/hicolor/scalable/apps"
cp "$here/share/icons/hicolor/scalable/apps/driftwood.svg" "$share/icons/hicolor/scalable/apps/"
sed -e "s|^Exec=.*|Exec=\"$here/driftwood\"|" -e "s|^TryExec=.*|TryExec=$here/driftwood|" \
    "$here/share/applications/driftwood.desktop" > "$share/applications/driftwood.desktop"
echo "Driftwood is in the menu now."
