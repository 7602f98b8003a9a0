"""What ships with Tidelog and runs on Spark: each job a package with its own driver, tasks and report.

`session` starts Spark for a command, `page` makes reports that a browser shows without asking anybody.
"""
