"""Attribution methods compared by rewrites and axioms, with witnesses."""
