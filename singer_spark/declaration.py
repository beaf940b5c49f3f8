"""The settings that tap and target share, as they are declared, once."""

from __future__ import annotations

from singer_sdk import typing as th

from singer_spark.settings import DEFAULT_MASTER

SHOW_VALUES = th.Property(
    "show_values",
    th.BooleanType,
    default=False,
    title="Show values",
    description=(
        "Let errors and logs quote values of records. They are kept in records of runs, and "
        "alerts and OpenLineage events repeat them."
    ),
)

SPARK = th.PropertiesList(
    th.Property(
        "spark_master",
        th.StringType,
        default=DEFAULT_MASTER,
        title="Spark master",
        description="local[4], spark://host:7077; for YARN and Kubernetes use spark_remote.",
    ),
    th.Property(
        "spark_remote",
        th.StringType,
        secret=True,
        title="Spark Connect server",
        description="A Spark Connect server such as sc://host:15002; excludes spark_master.",
    ),
    th.Property(
        "spark_conf",
        th.ObjectType(additional_properties=True),
        default={},
        secret=True,
        title="Spark configuration",
        description="Any Spark configuration, except what the product's promises rest on.",
    ),
    th.Property(
        "spark_packages",
        th.ArrayType(th.StringType),
        default=[],
        title="Maven packages",
        description=(
            "More Maven coordinates. Delta, S3 and the drivers of known JDBC URLs are added "
            "by themselves."
        ),
    ),
    th.Property(
        "spark_jars",
        th.ArrayType(th.StringType),
        default=[],
        title="Local jars",
        description="Local jars; with these nothing is resolved from a repository.",
    ),
    th.Property(
        "engine_idle",
        th.StringType,
        title="Keep Spark warm",
        description=(
            "How long Spark stays for the next run, such as 15m; SINGER_SPARK_ENGINE_IDLE sets it "
            "too. Unset, it ends with the run."
        ),
    ),
)
