"""The tables of spark_sales.py, generated from a seed: shops, the calendar, and the sales of each shop and day.

Sales depend on the shop, the day of the week, the season, promotions, school holidays and competitors. A tenth of the
sales is noise. Shops are closed on Sundays and on public holidays.
"""

import datetime
import math

from pyspark.sql import functions as F

FIRST, DAYS, SHOPS = datetime.date(2023, 1, 1), 500, 20


def day(number):
    """The date of a day, counted from the first; a negative number counts from the end."""
    return FIRST + datetime.timedelta(number % DAYS)


def generate(spark):
    """Three DataFrames: the shops, the calendar, and the sales."""
    shops = spark.range(SHOPS).select(
        F.col("id").alias("shop"),
        F.element_at(F.array(*map(F.lit, "abcd")), 1 + (4 * F.rand(1)).cast("int")).alias("kind"),
        F.round(F.exp(6 + F.randn(2))).alias("competitor_distance"),
        F.date_add(F.lit(FIRST), (DAYS * F.rand(3)).cast("int")).alias("competitor_since"),
        (0.3 * F.randn(4)).alias("popularity"),
    )
    number = F.col("id")
    calendar = spark.range(DAYS).select(
        F.date_add(F.lit(FIRST), number.cast("int")).alias("date"),
        F.when(number % 97 == 5, "public").when(number % 120 < 20, "school").otherwise("none").alias("holiday"),
    )
    has_competitor = (F.col("date") >= F.col("competitor_since")) & (F.col("competitor_distance") < 500)
    logarithm = (
        8.7
        + F.col("popularity")
        + 0.3 * F.col("promotion")
        - 0.05 * F.dayofweek("date")
        - 0.2 * has_competitor.cast("int")
        + 0.2 * F.sin(F.dayofyear("date") * (2 * math.pi / 365))
        + 0.1 * (F.col("holiday") == "school").cast("int")
        + 0.1 * F.randn(6)
    )
    is_open = (F.dayofweek("date") != 1) & (F.col("holiday") != "public")
    days = shops.crossJoin(calendar).withColumn("promotion", (F.rand(5) < 0.4).cast("int"))
    sales = days.withColumn("sales", F.when(is_open, F.round(F.exp(logarithm))).otherwise(0))
    # The popularity of a shop is in no table: a network can only learn it from the sales.
    return shops.drop("popularity"), calendar, sales.select("shop", "date", "promotion", "sales")
