"""Rows of a Parquet file, a few in memory at once."""

from collections.abc import Iterator, Sequence
from typing import IO

from lrp_axioms.benchmarks.sources.faults import places

BATCH = 16  # rows in memory at once
LARGE, PACKED = 2**28, 100  # limits of a column: bytes, and bytes per packed byte


def values(raw: IO[bytes], columns: Sequence[str]) -> Iterator[tuple[int, list]]:
    """Yields numbered rows; ValueError for a column of another kind, EOFError for a broken file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(raw)
        schema = about.schema.to_arrow_schema()
        places(schema.names, columns)
        for name, kind in ((name, schema.field(name).type) for name in columns):
            inner = getattr(kind, "value_type", kind)  # numbers in a list are relevance
            is_number = pa.types.is_floating(inner) or pa.types.is_integer(inner)
            if pa.types.is_nested(inner) or (pa.types.is_nested(kind) and not is_number):
                raise ValueError(f"column {name!r} is {kind}, which is no text; name another one")
        _check_sizes(about, columns)
        # Holds a repeated text once, and reads one page after the other.
        single = {about.schema.column(n).path for n in range(about.num_columns)} & {*columns}
        options = {"read_dictionary": single, "buffer_size": 2**20}
        options["page_checksum_verification"] = True
        file = parquet.ParquetFile(raw, metadata=about, **options)
        batches = file.iter_batches(BATCH, columns=list(columns))
        given = (row for batch in batches for row in zip(*map(batch.column, columns), strict=True))
        for number, row in enumerate(given, 1):
            yield number, [value.as_py() for value in row]
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise EOFError(error) from error


def _check_sizes(metadata, columns):
    """Raises ValueError for one of ``columns`` that is far larger unpacked than in the file."""
    wanted = lambda path: any(f"{path}.".startswith(f"{name}.") for name in columns)
    for n in range(metadata.num_row_groups):
        group = metadata.row_group(n)
        for column in map(group.column, range(group.num_columns)):
            size, packed = column.total_uncompressed_size, column.total_compressed_size
            if wanted(column.path_in_schema) and size > max(LARGE, PACKED * packed):
                raise ValueError(
                    f"column {column.path_in_schema!r} is packed from {size} bytes into {packed}; "
                    "write the texts as .jsonl"
                )
