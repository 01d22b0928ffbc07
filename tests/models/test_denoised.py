"""Denoise, then classify: the arithmetic of one step back, real diffusers folders, and that it pays."""

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from lvmrs import LVM, SmoothedClassifier, models, training
from lvmrs.data import load
from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.models import Denoised, DiffusionDenoiser, ready
from lvmrs.models.denoisers import load_denoiser, noise_step
from lvmrs.models.trained import save

# Not typed for strict checks.
diffusers: Any = import_module("diffusers")
transformers: Any = import_module("transformers")

SCHEDULE = diffusers.DDPMScheduler(num_train_timesteps=50, beta_start=0.001, beta_end=0.06)
KEPT = tuple(SCHEDULE.alphas_cumprod.double().tolist())


def tiny_unet(channels: int = 1, out: int | None = None) -> Any:
    torch.manual_seed(0)
    return diffusers.UNet2DModel(
        sample_size=8,
        in_channels=channels,
        out_channels=out or channels,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline saved by diffusers: a UNet trained on digits."""
    unet = tiny_unet()
    digits = load("digits", split="train")
    training.train(unet, digits, training.Diffusion(SCHEDULE), training.Settings(epochs=8, batch=64, lr=0.01))
    place = tmp_path_factory.mktemp("pipeline")
    diffusers.DDPMPipeline(unet, SCHEDULE).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def classifier() -> nn.Module:
    """Trained on clean digits."""
    torch.manual_seed(0)
    model = ready.build("small_cnn")
    training.train(model, load("digits", split="train"), training.Gaussian(0.0), training.Settings(epochs=20, lr=0.01))
    return model


# ---- one step back


class Oracle(nn.Module):
    """A UNet that knows the noise exactly, told what to answer with."""

    def __init__(self, clean: Tensor, prediction: str) -> None:
        super().__init__()
        self.clean, self.prediction = 2 * clean - 1, prediction
        self.config = type("Config", (), {"in_channels": clean.shape[1]})
        self.sigma, self.asked = 0.0, list[tuple[Tensor, Tensor]]()

    def forward(self, seen: Tensor, step: Tensor) -> Any:
        self.asked.append((seen, step))
        share = 1 / (1 + 4 * self.sigma**2)
        noise = (seen - math.sqrt(share) * self.clean) / math.sqrt(1 - share)
        velocity = math.sqrt(share) * noise - math.sqrt(1 - share) * self.clean
        answers = {"epsilon": noise, "sample": self.clean, "v_prediction": velocity}
        more = torch.full_like(seen, 7.0)  # a learned variance, which is not asked for
        return type("Answer", (), {"sample": torch.cat([answers[self.prediction], more], dim=1)})


@pytest.mark.parametrize("prediction", ["epsilon", "sample", "v_prediction"])
@pytest.mark.parametrize("sigma", [0.12, 0.25, 0.5])
def test_with_the_true_noise_the_image_comes_back(prediction: str, sigma: float) -> None:
    clean = torch.rand(5, 2, 4, 4, dtype=torch.float64)
    unet = Oracle(clean, prediction)
    unet.sigma = sigma
    denoiser = DiffusionDenoiser(unet, KEPT, sigma, prediction)
    noise = torch.randn(5, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(denoiser(clean + sigma * noise), clean, rtol=0, atol=1e-12)
    ((seen, step),) = unet.asked
    share = 1 / (1 + 4 * sigma**2)
    expected = math.sqrt(share) * (2 * clean - 1) + math.sqrt(1 - share) * noise  # as a diffusion would have made it
    torch.testing.assert_close(seen, expected, rtol=0, atol=1e-12)
    assert step.tolist() == [noise_step(KEPT, sigma)] * 5


@given(st.floats(0.01, 0.96))
def test_the_step_is_the_next_above(sigma: float) -> None:
    spread = [math.sqrt((1 - share) / share) for share in KEPT]
    step = noise_step(KEPT, sigma)
    assert spread[step] >= 2 * sigma
    assert step == 0 or spread[step - 1] < 2 * sigma


def test_steps_of_the_usual_schedule() -> None:
    """Linear betas from .0001 to .02 in 1000 steps, as DDPM has them; √ᾱ = 1/√(1 + 4σ²)."""
    usual = diffusers.DDPMScheduler().alphas_cumprod.double().tolist()
    for sigma in (0.25, 0.5, 1.0):
        step = noise_step(usual, sigma)
        assert usual[step] <= 1 / (1 + 4 * sigma**2) < usual[step - 1]


def test_noise_beyond_the_schedule_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"sigma 1\.5 is beyond the diffusion's schedule, which"):
        DiffusionDenoiser(tiny_unet(), KEPT, 1.5)
    assert noise_step((0.9, 0.0), 100.0) == 1  # a schedule that ends in pure noise has no end
    with pytest.raises(InvalidArgumentError, match="sigma must be positive"):
        DiffusionDenoiser(tiny_unet(), KEPT, 0.0)
    with pytest.raises(InvalidArgumentError, match="prediction must be one of epsilon, sample, v_prediction, got 'x0'"):
        DiffusionDenoiser(tiny_unet(), KEPT, 0.5, "x0")


# ---- with a classifier


def test_denoised_images_are_clamped_and_resized() -> None:
    asked: list[Tensor] = []

    def classify(x: Tensor) -> Tensor:
        asked.append(x)
        return x.flatten(1)

    Denoised(lambda x: 3 * x - 1, classify, size=(4, 6))(torch.rand(2, 3, 8, 8))
    assert asked[0].shape == (2, 3, 4, 6)
    assert float(asked[0].min()) >= 0
    assert float(asked[0].max()) <= 1
    with pytest.raises(ModelError, match=r"the denoiser turns images of shape \(3, 8, 8\) into \(3, 7, 7\)"):
        Denoised(lambda x: x[..., 1:, 1:], classify)(torch.rand(2, 3, 8, 8))


def test_denoising_certifies_more(folder: Path, classifier: nn.Module) -> None:
    """A classifier that never saw noise, and a UNet from a folder: one input after the other, with LVM."""
    denoiser, how = load_denoiser(f"diffusers:{folder}", 0.25)
    assert how.words == f"one step back from step {noise_step(KEPT, 0.25)} of 50"
    digits = load("digits")
    averages = []
    for model in (classifier, Denoised(denoiser, classifier)):
        smoothed = SmoothedClassifier(model, 0.25, batch=250)
        radii = []
        for index in range(0, 360, 18):
            x, label = digits[index]
            certificate = smoothed.certify(x, LVM(), n0=100, n=500, index=index)
            radii.append(certificate.radius if certificate.prediction == label else 0.0)
        averages.append(sum(radii) / len(radii))
    assert averages[1] > 1.05 * averages[0] > 0


@pytest.mark.parametrize("form", ["pipeline", "unet with scheduler"])
def test_folders_of_diffusers(tmp_path: Path, form: str) -> None:
    unet = tiny_unet()
    if form == "pipeline":
        diffusers.DDPMPipeline(unet, SCHEDULE).save_pretrained(tmp_path)
    else:
        unet.save_pretrained(tmp_path)
        SCHEDULE.save_pretrained(tmp_path)
    denoiser: Any
    denoiser, _ = load_denoiser(f"diffusers:{tmp_path}", 0.5)
    x = torch.rand(2, 1, 8, 8)
    with torch.inference_mode():
        torch.testing.assert_close(denoiser.eval()(x), DiffusionDenoiser(unet.eval(), KEPT, 0.5)(x))


def test_a_unet_with_weights_that_do_not_fit_is_refused(tmp_path: Path) -> None:
    diffusers.DDPMPipeline(tiny_unet(), SCHEDULE).save_pretrained(tmp_path)
    file = tmp_path / "unet" / "diffusion_pytorch_model.safetensors"
    state = safetensors.torch.load_file(file)
    del state["conv_in.weight"]
    safetensors.torch.save_file(state, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"its weights do not fit a UNet2DModel: conv_in\.weight and so on"):
        load_denoiser(f"diffusers:{tmp_path}", 0.5)
    state["conv_in.weight"] = torch.zeros(3)
    safetensors.torch.save_file(state, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"do not fit|is neither a DDPMPipeline"):
        load_denoiser(f"diffusers:{tmp_path}", 0.5)


def test_a_schedule_that_predicts_velocity_is_read(tmp_path: Path) -> None:
    schedule = diffusers.DDPMScheduler(num_train_timesteps=50, prediction_type="v_prediction")
    diffusers.DDPMPipeline(tiny_unet(), schedule).save_pretrained(tmp_path)
    denoiser: Any
    denoiser, _ = load_denoiser(f"diffusers:{tmp_path}", 0.05)
    assert denoiser.prediction == "v_prediction"


def test_a_denoiser_before_a_classifier_of_transformers(tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    diffusers.DDPMPipeline(tiny_unet(), SCHEDULE).save_pretrained(folder)
    config = transformers.ViTConfig(
        image_size=16, patch_size=8, num_channels=1, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=8, num_labels=10,
    )  # fmt: skip
    place = tmp_path / "vit"
    transformers.ViTForImageClassification(config).save_pretrained(place)
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16},
                 "image_mean": [0.5], "image_std": [0.5]}  # fmt: skip
    (place / "preprocessor_config.json").write_text(str(processor).replace("'", '"'))
    loaded = models.load(f"hf:{place}", denoiser=f"diffusers:{folder}", sigma=0.25)
    smoothed = SmoothedClassifier(loaded.model, 0.25, batch=20)
    x, _ = load("digits")[0]
    assert smoothed.certify(x, n0=20, n=40).classes == 10
    assert loaded.assumed[-1].startswith(f"denoised by diffusers:{folder}: one step back from step")
    assert loaded.facts.denoiser is not None
    assert loaded.facts.denoiser.name == f"diffusers:{folder}"
    assert len(loaded.denoiser_fingerprint or "") == 64


def test_plain_denoisers_by_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = ready.build("dncnn,channels=1,width=4")
    file = tmp_path / "d.safetensors"
    save(file, net, "ready:dncnn,channels=1,width=4", {"objective": "Denoising(sigma=0.5)"})
    x = torch.rand(2, 1, 8, 8)
    denoiser: Any
    denoiser, how = load_denoiser(f"trained:{file}", 0.5)
    assert torch.equal(denoiser.eval()(x), net.eval()(x))
    assert how.words == "the network is dncnn,channels=1,width=4, as the file says, trained for Denoising(sigma=0.5)"
    code = tmp_path / "own.py"
    code.write_text(
        "import torch\n"
        "def shrink(times=1, sigma=9):\n    return lambda x: x * times / (1 + sigma)\n"
        "def same():\n    return lambda x: x\n"
        "module = torch.nn.Identity()\n"
        "number = 3\n"
        "def nothing():\n    return 3\n"
    )
    shrink, _ = load_denoiser(f"python:{code}:shrink", 0.5)
    assert torch.equal(shrink(x), x / 1.5)
    for name in ("same", "module"):
        same, _ = load_denoiser(f"python:{code}:{name}", 0.5)
        assert torch.equal(same(x), x)
    for name, sentence in {
        f"python:{code}:number": "it is of type int; expected a function that returns a denoiser",
        f"python:{code}:nothing": "it returned int; expected a module or a callable",
        f"python:{code}:missing": "there is no missing",
        "trained:nowhere.safetensors": "nowhere.safetensors does not exist",
        "onnx:file": "no denoiser of that name; write one of diffusers:FOLDER, trained:FILE, python:MODULE:FUNCTION",
        "diffusers:": "a name is missing after the colon; write diffusers:FOLDER",
        "diffusers:nowhere": "nowhere is not a folder; give a folder of diffusers, or OWNER/NAME of the hub",
        f"diffusers:{tmp_path}": "it is neither a DDPMPipeline nor a UNet2DModel with its scheduler",
    }.items():
        with pytest.raises(ModelError, match=sentence):
            load_denoiser(name, 0.5)


def test_a_unet_for_other_channels_is_refused(classifier: nn.Module) -> None:
    model = Denoised(DiffusionDenoiser(tiny_unet(channels=3), KEPT, 0.25), classifier)
    with pytest.raises(ModelError, match="the inputs have 1 channels and the UNet takes 3; choose another denoiser"):
        SmoothedClassifier(model, 0.25).certify(torch.rand(1, 8, 8), n0=10, n=10)


def test_a_denoiser_hides_the_constant_of_the_classifier() -> None:
    model = Denoised(nn.Identity(), ready.build("sandwich_small,channels=1,side=8"))
    assert math.isinf(SmoothedClassifier(model, 0.25).lipschitz)
