"""Results of attribution methods: data, files, pages and pictures."""
