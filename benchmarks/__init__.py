"""Speed and size, measured side by side in one run: ratios, not absolute times. `make bench`."""
