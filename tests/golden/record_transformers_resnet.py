"""Records a small ResNet of Hugging Face's transformers: its weights, an input and the logits.

python3 record_transformers_resnet.py    (needs torch, transformers 4 and safetensors)
"""
import pathlib

import torch
from safetensors.torch import save_file
from transformers import ResNetConfig, ResNetForImageClassification

torch.manual_seed(0)
config = ResNetConfig(embedding_size=2, hidden_sizes=[2, 4, 8, 16], depths=[2, 1, 1, 1], layer_type="basic",
                      num_labels=5)
model = ResNetForImageClassification(config)
for name, tensor in model.state_dict().items():
    if name.endswith(("normalization.weight", "running_var")):
        tensor.uniform_(0.5, 1.5)
    elif name.endswith(("normalization.bias", "running_mean")):
        tensor.normal_()
model.eval()
image = torch.randn(2, 3, 32, 32)
with torch.no_grad():
    logits = model(image).logits
tensors = {"model." + name: tensor for name, tensor in model.state_dict().items()}
save_file(tensors | {"image": image, "logits": logits},
          pathlib.Path(__file__).with_name("transformers_resnet.safetensors"))
