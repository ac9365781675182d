"""The style sheet of the live view: every colour for light and dark, 4.5:1 for whatever is read."""

from pages.components.band_chart import STYLE as BANDS
from pages.components.evidence_bars import STYLE as BARS

_OWN = """<style>
.sl-live{--ink:light-dark(#10191f,#e8eef1);--soft:light-dark(#55606a,#a6b2ba);--line:light-dark(#d5dde3,#35424b);
 --track:light-dark(#e4eaee,#26323a);--out:light-dark(#8a959d,#6d7a83);--card:light-dark(#ffffff,#151d22);
 --open:light-dark(#0f5f73,#5bb8cf);--safe:light-dark(#14703f,#5cc48d);--unsafe:light-dark(#b42318,#f5857b);
 --escalate:light-dark(#a04a08,#efa65c);color:var(--ink);font-size:.9rem;container-type:inline-size}
.sl-live *{box-sizing:border-box}
.sl-node{display:grid;grid-template-columns:minmax(9.5rem,13rem) 1fr 6.8rem;gap:.25rem 1.25rem;align-items:center;
 border:1px solid var(--line);border-radius:.6rem;padding:.7rem 1rem;margin:0 0 .6rem;background:var(--card);
 min-height:9.4rem}
.sl-node h4{margin:0;padding:0;font-size:1rem;font-weight:650;color:var(--ink)}
.sl-node .q{color:var(--soft);font-size:.82rem;line-height:1.35;margin:.15rem 0 .45rem}
.sl-badge{display:inline-block;font-size:.8rem;font-weight:600;padding:.12rem .5rem;border-radius:.4rem;
 color:var(--c);background:color-mix(in srgb,var(--c) 11%,transparent);line-height:1.35}
.sl-c-open{--c:var(--open)}.sl-c-safe{--c:var(--safe)}.sl-c-unsafe{--c:var(--unsafe)}
.sl-c-escalate{--c:var(--escalate)}.sl-c-quiet{--c:var(--soft)}
.sl-trace{color:var(--soft);font-size:.75rem;line-height:1.3}
.sl-trace .g{display:flex;align-items:flex-end;gap:1px;height:3.4rem;margin-bottom:.25rem;
 border-bottom:1px solid var(--line);border-left:1px solid var(--line)}
.sl-trace .g i{flex:0 1 4%;background:color-mix(in srgb,var(--open) 55%,transparent)}
.sl-status{min-height:12.5rem;font-size:.95rem;overflow-anchor:none}
.sl-meaning{color:var(--soft);font-size:.85rem;margin:.2rem 0 0}
.sl-status p{line-height:1.45;margin:.35rem 0 0}
.sl-status .sl-verdict{font-size:2.1rem;font-weight:700;padding:.15rem .8rem}
.sl-status .sl-waits{font-size:1.05rem;font-weight:600;min-height:1.6rem}
.sl-status a{color:var(--open);text-decoration:underline}
.sl-budget{margin:0 0 .7rem}.sl-budget .w{display:flex;justify-content:space-between;gap:1rem;flex-wrap:wrap}
.sl-budget .w b{font-variant-numeric:tabular-nums}.sl-budget .w span{color:var(--soft)}
.sl-bar{height:.45rem;border-radius:.25rem;background:var(--track);overflow:hidden;margin-top:.3rem}
.sl-bar i{display:block;height:100%;background:var(--open);transition:width .3s}
@media (prefers-reduced-motion:reduce){.sl-live *{transition:none!important}}
@media (max-width:70rem){.sl-status{min-height:16rem}}@media (max-width:40rem){.sl-status{min-height:24rem}}
@container (max-width:54rem){.sl-node{grid-template-columns:1fr}.sl-trace{display:none}}
</style>"""
STYLE = _OWN + BARS + BANDS
"""All that the nodes of a picture need, once a page."""
