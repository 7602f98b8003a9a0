"""A step in Python: it is handed a DataFrame and gives one back."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def judge(payments: DataFrame) -> DataFrame:
    abroad = f.col("home").isNotNull() & (f.col("country") != f.col("home"))
    reason = f.when(f.col("name").isNull(), "nobody we know").when(abroad & (f.col("amount") > 500), "much, and abroad")
    return payments.withColumn("look_at", reason)
