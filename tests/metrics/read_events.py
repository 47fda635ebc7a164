"""Prints what TensorBoard's own reader finds in a folder of event files, as JSON.

    python3 read_events.py FOLDER
"""
import json
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2


def read(folder):
    accumulator = event_accumulator.EventAccumulator(
        folder,
        size_guidance={kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE},
    )
    accumulator.Reload()
    tags = accumulator.Tags()
    found = {"version": accumulator.file_version, "scalars": {}, "histograms": {}, "images": {}}
    for tag in tags["scalars"]:
        found["scalars"][tag] = [[e.step, e.value] for e in accumulator.Scalars(tag)]
    for tag in tags["histograms"]:
        found["histograms"][tag] = [
            {
                "step": e.step,
                "min": e.histogram_value.min,
                "max": e.histogram_value.max,
                "num": e.histogram_value.num,
                "sum": e.histogram_value.sum,
                "sum_squares": e.histogram_value.sum_squares,
                "limits": list(e.histogram_value.bucket_limit),
                "counts": list(e.histogram_value.bucket),
            }
            for e in accumulator.Histograms(tag)
        ]
    for tag in tags["images"]:
        found["images"][tag] = [
            {"step": e.step, "width": e.width, "height": e.height, "png": e.encoded_image_string.hex()}
            for e in accumulator.Images(tag)
        ]
    found["texts"] = {}
    found["hparams"] = {}
    for tag in tags["tensors"]:
        if accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "text":
            found["texts"][tag] = [
                [e.step, e.tensor_proto.string_val[0].decode()] for e in accumulator.Tensors(tag)
            ]
    try:
        content = accumulator.PluginTagToContent("hparams")
    except KeyError:
        content = {}
    for tag, encoded in content.items():
        data = plugin_data_pb2.HParamsPluginData.FromString(encoded)
        found["hparams"][tag] = str(data)
    return found


print(json.dumps(read(sys.argv[1])))
