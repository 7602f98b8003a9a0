"""A step in Python: it takes a DataFrame and returns one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def judge(payments: DataFrame) -> DataFrame:
    abroad = f.col("home").isNotNull() & (f.col("country") != f.col("home"))
    reason = f.when(f.col("name").isNull(), "unknown payer").when(abroad & (f.col("amount") > 500), "large and abroad")
    return payments.withColumn("suspicion", reason)
