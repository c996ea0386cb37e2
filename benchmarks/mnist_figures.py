def strips(result, *, paper, images):
    raise NotImplementedError
