"""Networks built from plain modules, with random weights and batch-norm statistics like those of trained networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """A residual block of ResNet-18."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.down: nn.Module | None = None
        if stride > 1 or inside != outside:
            self.down = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu_(y + (x if self.down is None else self.down(x)))


class ResNet18(nn.Module):
    """ResNet-18. width: the channels of the first blocks, 64 in the original."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        self.layers = nn.ModuleList(nn.Sequential(Block(a, b, 1 if a == b else 2), Block(b, b, 1)) for a, b in pairwise(sizes))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        for layer in self.layers:
            x = layer(x)
        made: Tensor = self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))
        return made


class Inverted(nn.Module):
    """An inverted residual of MobileNetV2."""

    def __init__(self, inside: int, outside: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inside * expand
        self.adds = stride == 1 and inside == outside
        parts: list[nn.Module] = []
        if expand > 1:
            parts += [nn.Conv2d(inside, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)]
        parts += [nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden)]
        parts += [nn.ReLU6(inplace=True), nn.Conv2d(hidden, outside, 1, bias=False), nn.BatchNorm2d(outside)]
        self.conv = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.conv(x)
        return x + made if self.adds else made


class MobileNetV2(nn.Module):
    """MobileNetV2. scale: a factor of the channels, 1 in the original."""

    def __init__(self, scale: float = 1, classes: int = 1000) -> None:
        super().__init__()

        def wide(channels: int) -> int:
            return max(int(channels * scale), 4)

        plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
        inside, last = wide(32), wide(1280)
        parts: list[nn.Module] = [nn.Conv2d(3, inside, 3, 2, 1, bias=False), nn.BatchNorm2d(inside), nn.ReLU6()]
        for expand, channels, count, stride in plan:
            for i in range(count):
                parts.append(Inverted(inside, wide(channels), stride if i == 0 else 1, expand))
                inside = wide(channels)
        self.features = nn.Sequential(*parts, nn.Conv2d(inside, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6())
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return made


class Reader(nn.Module):
    """An LSTM over embedded words, with a linear layer over its last states."""

    def __init__(self, words: int = 100, width: int = 32, hidden: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True, dropout=0.1)
        self.fc = nn.Linear(2 * hidden, 5)

    def forward(self, x: Tensor) -> Tensor:
        _, (last, _) = self.lstm(self.words(x))
        made: Tensor = self.fc(torch.cat([last[-2], last[-1]], 1))
        return made


class Attention(nn.Module):
    """Self-attention, with torch's function."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        made: Tensor = self.out(y.transpose(1, 2).reshape(batch, length, width))
        return made


class Layer(nn.Module):
    """A layer of an encoder, which normalises first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        made: Tensor = x + self.mlp(self.norm2(x))
        return made


class Encoder(nn.Module):
    """A transformer encoder over embedded words."""

    def __init__(self, words: int = 100, width: int = 64, heads: int = 4, depth: int = 4, length: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.1)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.words(x) + self.places[: x.shape[1]]
        for layer in self.layers:
            y = layer(y)
        made: Tensor = self.head(self.norm(y))
        return made


def ready(module: Any) -> Any:
    """The module in eval mode, with statistics as training leaves them: means about 0, variances of different sizes."""
    torch.manual_seed(37)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean, 0, 0.5)
            part.running_var.copy_(torch.exp(torch.randn(part.num_features) * 0.7))
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.3)
    return module.eval()
