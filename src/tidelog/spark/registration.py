"""How a session gets `format("tidelog")`, so that its Python workers can run it."""

from typing import TYPE_CHECKING, Any

from tidelog.spark.interpreter import own_python, report, report_server
from tidelog.spark.shipping import is_connect, is_local, ship

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register_source(spark: "SparkSession", source: "type[DataSource]") -> None:
    """On a local master the workers run this program's Python, elsewhere a Python that does not fit is reported."""
    if is_connect(spark):
        _register_with_server(spark, source)
    elif is_local(spark.sparkContext.master):
        with own_python(spark.sparkContext):
            spark.dataSource.register(source)
    else:
        report(spark.sparkContext.pythonExec, needs=("pyarrow",))
        ship(spark)
        spark.dataSource.register(source)


def _register_with_server(spark: "SparkSession", source: "type[DataSource]") -> None:
    from pyspark import SparkContext

    spark.dataSource.register(source)
    context = SparkContext._active_spark_context
    session = None if context is None else _own_servers_session(spark, context)
    if context is None or session is None:
        report_server(spark, needs=("pyarrow", "tidelog"))
    elif is_local(context.master):
        # The server takes its Python from the environment that it was started in. It is in this process's own JVM, so
        # what it has registered is replaced by the same source on this Python.
        with own_python(context):
            _replace(context, session, source)


def _own_servers_session(spark: "SparkSession", context: "SparkContext") -> Any:
    """The session as the server has it, if the server runs in the JVM of this process (`remote("local[*]")`)."""
    jvm: Any = context._jvm
    name = "org.apache.spark.sql.connect.service."
    client: Any = spark.client
    key = getattr(jvm, f"{name}SessionKey")(client._user_id or "", client._session_id)
    found = getattr(getattr(jvm, f"{name}SparkConnectService$"), "MODULE$").sessionManager()
    holder = found.getIsolatedSessionIfPresent(key)
    return holder.get().session() if holder.isDefined() else None


def _replace(context: "SparkContext", session: Any, source: "type[DataSource]") -> None:
    from pyspark.sql.udf import _wrap_function

    jvm: Any = context._jvm
    made = jvm.org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource
    session.dataSource().registerPython(source.name(), made(_wrap_function(context, source)))
