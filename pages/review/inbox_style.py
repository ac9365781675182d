"""The inbox's own measures and colours, beside those of the live view."""

STYLE = """<style>
.st-key-inbox{--soft:light-dark(#55606a,#a6b2ba);--ink:light-dark(#10191f,#e8eef1);--line:light-dark(#d5dde3,#35424b)}
.sl-title{display:flex;justify-content:space-between;align-items:baseline;gap:.8rem}
.sl-title h1{padding:0;margin:0;font-size:1.5rem;line-height:1.3}
.sl-title p{text-align:right}
.sl-h2{padding:0!important;margin:0!important;font-size:1.05rem!important;font-weight:650}
.st-key-inbox [data-testid="stVerticalBlock"]{gap:.55rem}
.sl-head{display:flex;flex-wrap:wrap;gap:.35rem .7rem;align-items:center;min-height:2.1rem}
.sl-head h2{padding:0;margin:0;font-size:1.1rem;font-weight:650;overflow-wrap:anywhere}
.sl-head span.t{color:light-dark(#55606a,#a6b2ba);font-size:.88rem}
.sl-tier{font-size:.8rem;font-weight:650;border-radius:.4rem;padding:.12rem .5rem;white-space:nowrap;
 color:var(--c);background:color-mix(in srgb,var(--c) 11%,transparent);
 border:1px solid color-mix(in srgb,var(--c) 35%,transparent)}
.sl-t0{--c:light-dark(#b42318,#ff9d94)}.sl-t1{--c:light-dark(#8f4006,#f2ae6a)}
.sl-t2{--c:light-dark(#0f5f73,#6cc3d8)}.sl-t3{--c:light-dark(#55606a,#a6b2ba)}
.sl-lease{font-variant-numeric:tabular-nums;font-size:.88rem;color:light-dark(#55606a,#a6b2ba);text-align:right;
 min-height:2.1rem;display:flex;align-items:center;justify-content:flex-end}
.sl-lease.low{color:light-dark(#8f4006,#f2ae6a);font-weight:600}
.sl-small{font-size:.85rem;color:light-dark(#55606a,#a6b2ba);line-height:1.45;margin:0}
.sl-say{font-size:.92rem;line-height:1.45;margin:0 0 .3rem;color:light-dark(#10191f,#e8eef1)}
.sl-lines{white-space:pre-line;overflow-wrap:anywhere}
.sl-warn{font-size:.88rem;color:light-dark(#8f4006,#f2ae6a);margin:0}
.st-key-queue button{justify-content:flex-start!important;text-align:left;padding:.25rem .5rem;min-height:2.9rem}
.st-key-queue button>*,.st-key-queue button div{
 justify-content:flex-start!important;text-align:left!important;width:100%}
.st-key-queue button:disabled,.st-key-queue button:disabled p{color:light-dark(#3c4750,#c3cdd3)!important}
.st-key-queue button p{font-size:.86rem;line-height:1.3;text-align:left}
.st-key-queue [data-testid="stVerticalBlock"]{gap:.3rem}
.st-key-label_choice button,.st-key-certainty_choice button{min-height:2.2rem;padding:.15rem .5rem}
.st-key-certainty_choice button{padding:.15rem .36rem}
.st-key-certainty_choice button,.st-key-certainty_choice button p{font-size:.82rem}
.st-key-certainty_choice [data-testid="stHorizontalBlock"]{gap:.25rem}
.st-key-left_foot{margin-top:.2rem}.st-key-left_foot button{padding:.1rem .3rem;min-height:1.9rem}
.sl-tiers{display:grid;gap:.35rem}
.sl-none{border:1px dashed light-dark(#b9c4cc,#46545e);border-radius:.6rem;padding:2.5rem 1.5rem;text-align:center;
 color:light-dark(#3c4750,#c3cdd3)}
.sl-none b{display:block;font-size:1.1rem;margin-bottom:.4rem;color:light-dark(#10191f,#e8eef1)}
.st-key-inbox button[kind="primary"] kbd,.st-key-adjudication button kbd{color:inherit!important;opacity:1!important}
[data-testid="stBaseButton-pillsActive"],[data-testid="stBaseButton-pillsActive"] p,
[data-testid="stButtonGroup"] button[aria-checked="true"] p,[data-testid="stButtonGroup"] button[aria-pressed="true"] p{
 color:light-dark(#0b4c5c,#8fd6e8)!important}
.sl-keys{color:light-dark(#3c4750,#c3cdd3);font-size:.88rem}
.sl-keys dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem .9rem;margin:.5rem 0!important;
 padding:0!important}.sl-keys dd{margin:0}
.sl-keys kbd{font:600 .8rem/1.4 ui-monospace,monospace;border:1px solid light-dark(#b9c4cc,#46545e);border-radius:.3rem;
 padding:.05rem .35rem;background:light-dark(#f1f5f8,#1a2329);color:light-dark(#10191f,#e8eef1)}
</style>"""
