"""What `tidelog demo` leaves to look at: a chart of the windows as PNG, and a page that needs nothing but itself."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cli.output import format_bytes, format_count, format_rate, format_seconds

if TYPE_CHECKING:
    from tidelog.cli.demo_pipeline import PipelineHalf

BAR = "#0f766e"
LIVE_BAR = "#f59e0b"

Window = Mapping[str, Any]


def is_live(window: Window) -> bool:
    """Whether the minute belongs to the orders that came in while the pipeline ran."""
    from tidelog.cli.demo_orders import UNTIL_MS
    from tidelog.cli.times import format_time

    return str(window["minute"]) >= format_time(UNTIL_MS)[:16].replace("T", " ")


def draw_chart(windows: Sequence[Window], path: Path) -> None:
    """Bars of revenue per minute; the minutes of the live stream in another colour."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(12, 5), dpi=120, layout="constrained")
    axes = figure.subplots()
    labels = [str(window["minute"])[11:] for window in windows]
    values = [window["amount_cents"] / 100_000 for window in windows]
    colours = [LIVE_BAR if is_live(window) else BAR for window in windows]
    axes.bar(range(len(values)), values, color=colours, width=0.82, zorder=2)
    step = max(1, len(labels) // 12)
    axes.set_xticks(range(0, len(labels), step), labels[::step])
    axes.set_ylabel("revenue, thousands")
    axes.set_title("Revenue per minute", loc="left", fontsize=15, fontweight="bold", pad=14)
    axes.grid(axis="y", color="#d6dde3", linewidth=0.8, zorder=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    axes.legend(
        handles=[Patch(color=BAR, label="read from the log"), Patch(color=LIVE_BAR, label="written while it ran")],
        frameon=False,
        loc="upper right",
        bbox_to_anchor=(1, 1.12),
        ncols=2,
    )
    figure.savefig(path)


def write_page(half: PipelineHalf, broker: Mapping[str, Any], path: Path) -> None:
    """One HTML file with everything the demo found; styles and drawings are inside."""
    assert half.live is not None
    assert half.audit is not None
    records = broker["records"] + half.live.written
    cents = sum(window["amount_cents"] for window in half.windows)
    tiles = [
        ("orders", format_count(broker["records"] + half.live.count), f"worth {cents / 100:,.0f}"),
        ("node start", format_seconds(broker["start_ms"] / 1000), f"{format_bytes(broker['rss_bytes'])} of memory"),
        (
            "written",
            f"{format_count(round(broker['produce_records_per_second']))}/s",
            "acks=all, idempotent",
        ),
        ("read", f"{format_count(round(broker['consume_records_per_second']))}/s", "and compared byte for byte"),
        (
            "through the pipeline",
            format_count(records),
            f"in {format_seconds(half.seconds['stream'])}, with Spark's start-up",
        ),
        ("archived", format_rate(records, half.seconds["archive"]), "key, value, headers, offsets"),
        ("dead letters", format_count(half.dead_letters), "with reason and origin"),
        ("audit", "same" if half.audit.is_same else "different", f"{len(half.audit.partitions)} partitions compared"),
    ]
    verdict = (
        "Every order is in the windows and in the table exactly once."
        if not half.problems
        else "It does not add up: " + "; ".join(half.problems)
    )
    page = PAGE.format(
        verdict=html.escape(verdict),
        verdict_class="good" if not half.problems else "bad",
        tiles="\n".join(
            f'<div class="tile"><div class="name">{html.escape(name)}</div>'
            f'<div class="figure">{html.escape(figure)}</div>'
            f'<div class="remark">{html.escape(remark)}</div></div>'
            for name, figure, remark in tiles
        ),
        chart=chart_svg(half.windows),
        windows=_table(
            ("minute", "orders", "revenue", ""),
            [
                (
                    window["minute"],
                    format_count(window["orders"]),
                    f"{window['amount_cents'] / 100:,.2f}",
                    "live" if is_live(window) else "",
                )
                for window in half.windows
            ],
            numbers=(1, 2),
        ),
        audit=_table(
            ("partition", "records", "offsets", "rows in the archive", "checksum", ""),
            [
                (
                    partition.partition,
                    format_count(partition.log.rows),
                    f"{partition.log.first}..{partition.log.last}",
                    format_count(partition.table.rows),
                    partition.log.checksum,
                    partition.verdict,
                )
                for partition in half.audit.partitions
            ],
            numbers=(0, 1, 2, 3),
        ),
        pipeline=html.escape(half.file.read_text(encoding="utf-8")),
    )
    path.write_text(page, encoding="utf-8")


def _table(titles: Sequence[str], rows: Sequence[Sequence[Any]], *, numbers: Sequence[int]) -> str:
    def cell(tag: str, index: int, value: Any) -> str:
        return f"<{tag}{' class=number' if index in numbers else ''}>{html.escape(str(value))}</{tag}>"

    head = "".join(cell("th", index, title) for index, title in enumerate(titles))
    body = "\n".join(f"<tr>{''.join(cell('td', index, value) for index, value in enumerate(row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def chart_svg(windows: Sequence[Window], width: int = 1000, height: int = 300) -> str:
    """The same chart as a drawing inside the page; a bar tells its figures when pointed at."""
    if not windows:
        return ""
    left, right, bottom, top = 60, 16, 34, 12
    highest = max(window["amount_cents"] for window in windows) / 100 or 1
    scale = _round_scale(highest)
    slot = (width - left - right) / len(windows)
    area = height - bottom - top
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="revenue per minute">']
    lines = 4
    for line in range(lines + 1):
        y = top + area - area * line / lines
        parts.append(
            f'<line class="grid" stroke="#dbe4ea" x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}"/>'
        )
        label = _short(scale * line / lines)
        parts.append(_axis_text(left - 8, y + 4, "end", label))
    step = max(1, len(windows) // 10)
    for index, window in enumerate(windows):
        amount = window["amount_cents"] / 100
        tall = area * amount / scale
        x = left + slot * index + slot * 0.1
        title = f"{window['minute']}: {amount:,.2f} from {window['orders']:,} orders"
        parts.append(
            f'<rect {_bar(window)} x="{x:.1f}" y="{top + area - tall:.1f}" '
            f'width="{slot * 0.8:.1f}" height="{tall:.1f}" rx="3"><title>{html.escape(title)}</title></rect>'
        )
        if index % step == 0:
            middle = left + slot * (index + 0.5)
            label = html.escape(str(window["minute"])[11:])
            parts.append(_axis_text(middle, height - 12, "middle", label))
    return "\n".join([*parts, "</svg>"])


def _axis_text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="axis" font-size="12" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _bar(window: Window) -> str:
    """The colour twice: readers that know no styles inside drawings take the attribute."""
    return f'class="live" fill="{LIVE_BAR}"' if is_live(window) else f'class="log" fill="{BAR}"'


def _short(amount: float) -> str:
    """2500000 -> '2.5 M'."""
    for limit, unit in ((1_000_000, " M"), (1_000, " k")):
        if amount >= limit:
            return f"{amount / limit:.4g}{unit}"
    return f"{amount:.4g}"


def _round_scale(highest: float) -> float:
    """The next of 1, 2, 4, 5, 8, 10 times a power of ten."""
    power = 10 ** (len(str(int(highest))) - 1)
    return float(next(power * step for step in (1, 2, 3, 4, 5, 6, 8, 10, 20) if power * step >= highest))


PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tidelog demo</title>
<style>
  :root {{ --ink: #10212b; --soft: #5c6f7b; --line: #dbe4ea; --paper: #f5f8fa; --card: #fff;
           --log: #0f766e; --live: #f59e0b; --good: #0f766e; --bad: #b91c1c; }}
  @media (prefers-color-scheme: dark) {{
    :root {{ --ink: #e8eff3; --soft: #93a6b1; --line: #24343e; --paper: #0c151b; --card: #132029;
             --log: #2dd4bf; --live: #fbbf24; --good: #2dd4bf; --bad: #f87171; }}
  }}
  * {{ box-sizing: border-box }}
  body {{ margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }}
  main {{ max-width: 1080px; margin: 0 auto; padding: 40px 24px 64px }}
  h1 {{ margin: 0; font-size: 30px; letter-spacing: -.02em }}
  h2 {{ margin: 0 0 14px; font-size: 17px }}
  .verdict {{ margin: 6px 0 28px; font-size: 17px }}
  .good {{ color: var(--good) }} .bad {{ color: var(--bad) }}
  .tiles {{ display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px }}
  @media (max-width: 800px) {{ .tiles {{ grid-template-columns: repeat(2, 1fr) }} }}
  .tile, section {{ background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 16px 18px }}
  .tile .name, .tile .remark {{ color: var(--soft); font-size: 13px }}
  .tile .figure {{ font-size: 26px; font-weight: 600; letter-spacing: -.02em; font-variant-numeric: tabular-nums }}
  section {{ margin-top: 16px; overflow-x: auto }}
  svg {{ width: 100%; height: auto; display: block }}
  .grid {{ stroke: var(--line) }} .axis {{ fill: var(--soft); font-size: 12px }}
  rect.log {{ fill: var(--log) }} rect.live {{ fill: var(--live) }} rect:hover {{ opacity: .75 }}
  .legend {{ color: var(--soft); font-size: 13px; margin: 0 0 10px }}
  .dot {{ display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin: 0 5px 0 12px }}
  table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }}
  th, td {{ text-align: left; padding: 5px 12px; border-bottom: 1px solid var(--line); white-space: nowrap }}
  th {{ color: var(--soft); font-weight: 500; font-size: 13px }}
  .number {{ text-align: right }}
  tbody tr:last-child td {{ border-bottom: 0 }}
  .scroll {{ max-height: 340px; overflow: auto }}
  pre {{ margin: 0; font: 13px/1.55 ui-monospace, monospace; white-space: pre; overflow-x: auto }}
  footer {{ color: var(--soft); font-size: 13px; margin-top: 20px }}
</style>
<main>
  <h1>Tidelog</h1>
  <p class="verdict {verdict_class}">{verdict}</p>
  <div class="tiles">
{tiles}
  </div>
  <section>
    <h2>Revenue per minute</h2>
    <p class="legend">from the topic revenue-per-minute, read_committed
      <span class="dot" style="background:var(--log)"></span>read from the log
      <span class="dot" style="background:var(--live)"></span>written while it ran</p>
{chart}
  </section>
  <section><h2>The windows</h2><div class="scroll">
{windows}
  </div></section>
  <section><h2>Log against archive</h2>
{audit}
  </section>
  <section><h2>The pipeline</h2><pre>{pipeline}</pre></section>
  <footer>Written by <code>tidelog demo</code>.</footer>
</main>
</html>
"""
