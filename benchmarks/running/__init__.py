"""Work shared out to processes or a cluster; finished work is kept."""
