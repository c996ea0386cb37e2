"""Torch modules that are no Transformers models, small and with biases of zero."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, WORDS = 16, 2, 40


class Encoder(nn.Module):
    """A classifier around torch's own encoder, with learned positions."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.randn(1, 32, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 32, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, ids, *, hidden=None):
        x = self.embed(ids) + self.positions[:, : ids.shape[1]]
        return self.head(self.encoder(x, src_key_padding_mask=hidden)[:, 0])


class Block(nn.Module):
    """Attention and an MLP by hand, before norms of root mean square."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.gate = (nn.Linear(WIDTH, 32, bias=False) for _ in range(2))
        self.down = nn.Linear(32, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        parts = self.qkv(self.first(x)).view(batch, tokens, 3, HEADS, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Gpt(nn.Module):
    """A decoder by hand, whose head is its table of words."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return {"scores": self.norm(x) @ self.table.weight.T}


class Cnn(nn.Sequential):
    """Convolutions, a norm of batches, and pooling, on images."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(8, 4),
        )  # fmt: skip


class Bottleneck(nn.Module):
    """A block of ResNet-50: 1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    def __init__(self, into, width, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2, self.bn3 = nn.BatchNorm2d(width), nn.BatchNorm2d(out)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.downsample = nn.Sequential(
            nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    """The stem, two blocks and the head of ResNet-50."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, padding=3, bias=False), nn.BatchNorm2d(8)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)
        self.layer1, self.layer2 = Bottleneck(8, 4, 16, 1), Bottleneck(16, 8, 32, 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(32, 5)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class VisionBlock(nn.Module):
    """A block of a vision Transformer with one product for Q, K and V."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, x):
        batch, tokens, _ = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, HEADS, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patches of an image, a token that is read, and positions."""

    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, WIDTH, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, WIDTH))
        self.blocks, self.norm = nn.Sequential(VisionBlock(), VisionBlock()), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class Sets(nn.Module):
    """A function of a set of points: a sum over all of them."""

    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.rho = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))

    def forward(self, points):
        return self.rho(self.phi(points).sum(dim=1))


class Two(nn.Module):
    """Words and numbers, which meet in a sum and a gate."""

    def __init__(self):
        super().__init__()
        self.words, self.project = nn.Embedding(WORDS, WIDTH), nn.Linear(5, WIDTH)
        self.gate, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, ids, numbers):
        a, b = self.words(ids).mean(dim=1), torch.tanh(self.project(numbers))
        return self.head(torch.tanh(self.gate(a)) * b + a), b


IDS, IMAGES = torch.arange(14).view(2, 7), (2, 3, 16, 16)


def example(shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


MODULES = {
    "encoder of torch": (Encoder, IDS, ["embed"]),
    "GPT by hand": (Gpt, IDS, ["table"]),
    "CNN": (Cnn, example(IMAGES), ["input"]),
    "ResNet": (ResNet, example((2, 3, 32, 32)), ["x"]),
    "vision Transformer": (VisionTransformer, example(IMAGES), ["patch_embed"]),
    "sets": (Sets, example((2, 6, 4)), ["points"]),
    "two inputs": (Two, {"ids": IDS, "numbers": example((2, 5))}, ["words", "numbers"]),
}
"""Name -> class, its inputs, and tensors that all of the number comes from."""
CONSTANT = ("bias", "positions", "pos_embed", "cls_token")


def make(cls):
    """Makes a module with random weights, whose added constants are 0."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = cls().eval()
    for name, parameter in module.named_parameters():
        if name.endswith(CONSTANT):
            nn.init.zeros_(parameter)
    return module


def read(output):
    """Returns the second number of each example."""
    if isinstance(output, dict):
        return output["scores"][:, -1, 1]
    return (output[0] if isinstance(output, tuple) else output)[:, 1]
