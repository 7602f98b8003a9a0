"""Worked examples of pipelines: `python -m examples.clickstream`, and so on."""
