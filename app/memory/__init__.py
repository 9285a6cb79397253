"""The GPU memory meter: the bar in the rail and the panel with the split and its history."""
