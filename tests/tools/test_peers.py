"""Other libraries, where they are installed, explain pairs of implementations as documented."""

import warnings
from pathlib import Path

import pytest

from tests.support import peers

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "SCOREBOARD.md"


def documented():
    """Peer with version -> rewrite -> cell of the table in the document."""
    lines = DOCUMENT.read_text().splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("| Rewrite | lxt"))
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines[start:]
        if line.startswith("|")
    ]
    head, rows = table[0][1:], table[2:]
    return {peer: {row[0]: row[1 + k] for row in rows} for k, peer in enumerate(head)}


@pytest.mark.parametrize("rewrite", peers.PAIRS)
def test_the_pairs_denote_one_function(rewrite):
    inputs, one, other = peers.PAIRS[rewrite]
    assert (one(peers.plain, *inputs) == other(peers.plain, *inputs)).all()
    assert (one(peers.plain, *inputs) != 0).all()


def test_the_document_has_every_peer_and_every_pair():
    table = documented()
    assert [peer.rpartition(" ")[0] for peer in table] == list(peers.PEERS)
    assert all(list(cells) == list(peers.PAIRS) for cells in table.values())


@pytest.mark.parametrize("rewrite", peers.PAIRS)
@pytest.mark.parametrize("peer", peers.PEERS)
def test_the_document_says_what_is_measured(peer, rewrite):
    package, _ = peers.PEERS[peer]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other library, at import
        pytest.importorskip(peers.PACKAGES[package])
    column = documented().get(f"{peer} ({peers.version(peer)})")
    if column is None:
        pytest.skip(f"the document reports another version of {package}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert peers.cell(peer, rewrite) == column[rewrite]
