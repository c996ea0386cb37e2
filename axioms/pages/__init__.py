"""Pages of theorems, rules and rewrites: everything that writes Markdown or LaTeX."""
