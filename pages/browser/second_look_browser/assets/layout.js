// What the desk shows: the text and what belongs to it, beside it the form or what came of it. On a narrow page the decision
// stands at the foot of the window.
import { h, keyed } from "./dom.js";
import { inAddress } from "./server.js";

const LOW_MS = 120000;
const PRIORITIES = ["P0", "P1", "P2", "P3"];
const TITLES = { reviewing: "Your review", read: "Saved", idle: "My work" };
export const narrow = window.matchMedia("(max-width: 60rem)");

const link = (href, words) => h("a", { href, target: "_blank", rel: "noopener noreferrer" }, words);
const paragraphs = (lines) => lines.map((words) => h("p", {}, words));
const entries = (pairs) => pairs.flatMap(([name, words]) => [h("dt", {}, name), h("dd", {}, words)]);
const small = (words) => h("p", { class: "sld-small" }, words);
const bold = (words) => h("b", {}, words);

export function view(desk) {
  const { stage, shown, data, page, form } = desk;
  const reading = ["reviewing", "read"].includes(stage);
  const alert = h("p", { class: "sld-alert", role: "alert" }, desk.alert && h("span", { key: `${desk.told}` }, desk.alert));
  const root = {
    class: `sld${desk.saving ? " sld-saving" : ""}`,
    "data-stage": stage,
    "data-changes": String(desk.mayChange),
    "data-keys": desk.keysOn ? "on" : "off",
  };
  const title = desk.revising ? "Edit your review" : TITLES[stage] ?? "This case";
  const decision = [desk.mayChange && form.needed(), narrow.matches ? null : rest(desk), bar(desk)];
  return h("div", root,
    h("div", { class: "sld-lost", role: "alert" }, desk.lostWords),
    h("section", { class: "sld-main", "aria-label": "The case" },
      hidden(desk),
      head(desk),
      h("p", { class: "sld-said", role: "status" }, data.said),
      h("div", { class: "sld-none sld-rest", role: "status", hidden: !data.rest }, data.rest && offerBreak(desk)),
      none(desk),
      h("div", { class: "sld-texts", hidden: (shown?.text ?? null) === null }, desk.panes.map((pane) => pane.view())),
      hint(desk),
      danger(reading ? page.help : {}),
      h("div", { class: "sld-notes", role: "note", "aria-label": "Notes of other reviewers" }, paragraphs(shown?.notes ?? [])),
      panel(desk),
      near(shown?.near ?? []),
      h("div", { class: "sld-evidence", html: shown?.evidence ?? "" })),
    h("section", { class: "sld-side", "aria-label": "Your review" },
      h("div", { class: "sld-titles" }, h("h2", {}, title), h("span", { class: "sld-who" }, `Signed in as ${page.me.name}`)),
      narrow.matches ? null : alert,
      receipt(desk),
      narrow.matches ? rest(desk) : decision),
    narrow.matches && h("div", { class: "sld-decide" }, alert, decision),
    leaveDialog(desk));
}

// What is filled in beside label, confidence and disposition.
function rest(desk) {
  const { form, data, revising, mayChange } = desk;
  const points = (mayChange && data.points) || [];
  return [
    revising && h("label", { class: "sld-block sld-reason" }, "Reason for change (required)", h("input", desk.line("reason"))),
    mayChange && form.optional(),
    h("ul", { class: "sld-points", "aria-label": "Disagreement" }, points.map((words) => h("li", {}, words))),
  ];
}

// It says its key, and does what the key does or what ``act`` does. One that a press has begun on never becomes another.
function button(desk, words, key, look = "", act = () => desk.press(key), disabled = false) {
  const one = { key: [desk.stage, desk.revising, key || words].join(), type: "button", class: `sld-button ${look}`, disabled };
  return h("button", { ...one, onclick: () => act(), "aria-keyshortcuts": key || null }, keyed(words, key));
}

const row = (desk, buttons) => h("div", { class: "sld-row" }, buttons.map((each) => button(desk, ...each)));

// P0 cases that the filter leaves out.
function hidden(desk) {
  const number = desk.inbox.queue.now.hidden;
  const words = number === 1 ? "1 P0 case is outside your filter. " : `${number} P0 cases are outside your filter. `;
  const open = button(desk, "Open the most urgent", "", "sld-link", () => desk.go("urgent"));
  return h("p", { class: "sld-hidden", role: "status", hidden: !number }, number && [words, open]);
}

function head(desk) {
  const { shown, stage } = desk;
  const now = desk.now();
  // a target is for what this reviewer may still look at
  const open = stage === "reviewing" || (stage === "over" && desk.data.may_take);
  const left = open && shown.due ? shown.due - now : null; // counted here: it goes on on a cut line
  const words = left !== null && `${left > 0 ? "due in" : "overdue"} ${span(left)}`;
  const late = left !== null && left <= 0 ? " sld-late" : "";
  const held = (shown?.expires ?? 0) - now;
  const low = stage === "reviewing" && held <= LOW_MS ? " sld-low" : "";
  const lease = stage === "read" ? "✓ reviewed by you" : `Assigned to you (${clock(held)}, renews while active)`;
  const priority = { class: `sld-priority t${shown?.priority}`, hidden: shown?.priority === undefined };
  return h("div", { class: "sld-head", hidden: !shown?.name },
    h("h2", { class: "sld-name" }, shown?.name),
    h("span", priority, shown?.priority_words),
    h("span", { class: `sld-why${late}` }, [shown?.why, words].filter(Boolean).join(" · ")),
    h("span", { class: `sld-lease${low}`, role: "timer", hidden: !["reviewing", "read"].includes(stage) }, lease));
}

// A break that is offered, in the site's own words.
function offerBreak(desk) {
  const buttons = [["Take a break", "B", "sld-primary"], ["Go on", "", "", () => desk.once("go_on")]];
  return [h("span", { class: "sld-own" }, desk.data.rest), row(desk, buttons)];
}

// What is said where no text is.
function none(desk) {
  const { stage, data } = desk;
  const said = {
    idle: ["No case open", data.words],
    named: ["Not assigned to you", data.words],
    over: ["This case is no longer open here", data.words],
    reviewing: desk.covered && ["Text hidden", "Press O to view it."],
  }[stage];
  const open = desk.covered && row(desk, [["Open the text", "O", "sld-primary"]]);
  return h("div", { class: "sld-none", role: "status", hidden: !said }, said && [bold(said[0]), h("span", {}, said[1]), open]);
}

function hint(desk) {
  const mark = !desk.covered && ["Highlight the key words: drag", !narrow.matches && [", or press ", h("kbd", {}, "M")], ". "];
  const more = [button(desk, "Guideline", "G", "sld-link"), " · ", button(desk, "Keys", "?", "sld-link")];
  return h("p", { class: "sld-hint" }, desk.stage === "reviewing" && [h("span", {}, mark), more]);
}

function danger({ words, protocol }) {
  return h("p", { class: "sld-danger", hidden: !words && !protocol }, words, protocol && [" ", link(protocol, "Site protocol")]);
}

function panel(desk) {
  const { own, labels, reminders } = desk.page.guideline;
  const shown = desk.panelShown;
  const [title, key] = shown === "keys" ? ["Keys", "?"] : ["Guideline", "G"];
  const keys = desk.page.offer.keys.map(([name, words]) => [h("kbd", {}, name), words]);
  const parts = {
    guideline: () => [
      h("dl", {}, entries(labels)),
      h("ul", {}, reminders.map((words) => h("li", {}, words))),
      own && [h("h3", {}, "Your organization's guideline"), h("p", { class: "sld-own" }, own)],
    ],
    keys: () => [h("dl", { class: "sld-keys" }, entries(keys)), !desk.keysOn && h("p", {}, "Keyboard shortcuts are off.")],
  };
  const root = { class: "sld-panel", hidden: !shown, tabindex: 0, "aria-label": title };
  return h("section", root, shown && [h("h3", {}, keyed(title, key)), parts[shown]()]);
}

function near(texts) {
  const entry = ({ where, name, text }) => [h("dt", {}, `${where} · ${name}`), h("dd", { dir: "auto" }, text)];
  return h("section", { class: "sld-near", hidden: !texts.length, "aria-label": "Same person" },
    h("h3", {}, "Same person, other texts in this file"), h("dl", {}, texts.map(entry)));
}

// What the review became, and what others and the AI made of the case.
function receipt(desk) {
  if (desk.stage !== "read" || desk.revising) return h("div", { class: "sld-receipt", role: "status" });
  const { words, version, blind, becomes, follow_ups, engine, compared, others, rules, act, form } = desk.data.read;
  const { id, at } = desk.data.read.receipt;
  return h("div", { class: "sld-receipt", role: "status", title: `Audit ID ${id}, ${when(at)}` },
    h("p", {}, "✓ Saved: ", bold(words), version > 1 ? ` (version ${version}).` : "."),
    h("p", { class: "sld-follows" }, becomes),
    follow_ups.map((one) => h("p", { class: "sld-follows" }, bold(one.words), `, by ${when(one.due)}`)),
    !blind && small("Not counted in the estimates on Reliability, because you had seen the AI result."),
    form.read_to_end === false && small("You submitted before scrolling to the end."),
    engine && [h("p", {}, bold("AI result: "), engine), h("p", {}, compared)],
    paragraphs(rules.map((one) => one.words)),
    act && h("p", {}, bold("Where to act: "), act.href ? link(act.href, act.words) : act.words),
    others.map((other) => h("p", {}, bold(`Another reviewer (${other.who}): `), other.words)),
    h("p", {}, h("a", { href: `case?case=${desk.caseId}`, target: "_self" }, "Full case history")));
}

// The buttons of a stage in rows, and over the first what was saved last, and for how long it can be undone.
function bar(desk) {
  const { data: { last } } = desk;
  const minutes = desk.mayChange && desk.form.chosen("disposition")[3];
  const then = minutes ? `Follow-up for you: due ${when(desk.now() + 60000 * minutes)}. ` : ""; // said before it is saved
  const seconds = Math.max(0, Math.ceil(((last?.until ?? 0) - desk.now()) / 1000));
  const status = h("div", { class: "sld-status" },
    h("p", { class: "sld-then" }, then + desk.drafted),
    h("p", { class: "sld-foot" },
      last && h("span", {}, `Saved ${when(last.at)}: ${last.name}, ${last.words}. `),
      seconds > 0 && [button(desk, "Undo", "U", "sld-link"), ` ${seconds} s`]));
  const [first, ...others] = buttons(desk).map((each) => row(desk, each));
  return h("div", { class: "sld-bar" }, h("div", { class: "sld-first" }, status, first), others);
}

function buttons(desk) {
  const { stage, shown, data } = desk;
  const primary = "sld-primary";
  // N keeps to the filter, where one is on, and says so: on a narrow page the list with its priorities is out of sight
  const only = PRIORITIES.filter((priority) => inAddress("priorities").split(",").includes(priority));
  const filtered = only.length > 0 && only.length < PRIORITIES.length;
  const next = [filtered ? `Next case of ${only.join(", ")}` : "Next case", "N", primary];
  if (stage === "idle") return [[next], [["Previous", "P"], ["End session", "F"], ["Keys", "?"]]];
  if (stage === "named") return [...(data.may_take ? [[["Take this case", "T", primary]]] : []), [next]];
  if (stage === "over") {
    const close = ["Close it here", "S"];
    const mine = ["Show my review", "", primary, () => desk.once("previous", { case: desk.caseId })];
    return [data.may_take ? [["Reopen this case", "T", primary], close] : [data.mine ? mine : close], [next]];
  }
  if (stage === "read" && !desk.revising) return [[next], [["Edit my review", "V"], ["End session", "F"], ["Previous", "P"]]];
  const save = [saveWords(desk), "Ctrl+Enter", "sld-primary sld-save", undefined, desk.covered];
  if (desk.revising) return [[save, ["Cancel", "Esc", "", () => desk.leaveChange()]]];
  const second = [shown?.asked ? "✓ Second review requested" : "Request second review", "A"];
  return [
    [save],
    [["Skip", "S"], ["Hold", "H"], ["Transfer", "B"], ["Decline", "X"]],
    [second, ...(desk.mayOpenAtOnce ? [["Show AI evidence (unblinds)", "I"]] : [])],
  ];
}

function saveWords({ saving, revising, form }) {
  if (saving) return `Saving: ${saving.words} …`;
  const words = form.words();
  if (!words) return revising ? "Save the change" : "Submit review";
  return `${revising ? "Save the change" : "Submit"}: ${words}`;
}

// How a case is left: one dialog, which keeps the focus until it is confirmed or closed. What is wrong with it is said in
// it; the note outlives it.
function leaveDialog(desk) {
  const { way } = desk;
  const ref = (element) => (desk.dialog = element);
  const dialog = { class: "sld-leave", "aria-labelledby": "sld-leave-title", ref, onclose: () => desk.leaveClosed() };
  if (!way) return h("dialog", dialog);
  const people = [["", "Choose a colleague"], ...(way.colleagues ?? [])].map(([value, name]) => h("option", { value }, name));
  const note = h("input", desk.line("leaving"));
  const to = { class: "sld-input", value: way.to, onchange: ({ target }) => (way.to = target.value) };
  return h("dialog", dialog, h("form", { onsubmit: (event) => desk.confirm(event) },
    h("h3", { id: "sld-leave-title" }, way.title),
    small(way.words),
    way.colleagues && h("label", { class: "sld-block" }, "Transfer to", h("select", to, people)),
    h("label", { class: "sld-block" }, `Note for the next reviewer${way.needed ? "" : " (optional)"}`, note),
    h("p", { class: "sld-refused", role: "alert" }, way.refused && h("span", { key: `${desk.told}` }, way.refused)),
    h("div", { class: "sld-row" },
      h("button", { type: "submit", class: "sld-button sld-primary" }, way.title),
      button(desk, "Cancel", "Esc", "", () => desk.dialog.close()))));
}

// A moment as the clock of whoever looks says it; the day where it is another one.
export function when(ms) {
  const at = new Date(ms);
  const day = at.toDateString() === new Date().toDateString() ? {} : { month: "short", day: "numeric" };
  return at.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

function span(ms) {
  const minutes = Math.floor(Math.abs(ms) / 60000);
  if (minutes < 1) return "<1 min";
  if (minutes < 60) return `${minutes} min`;
  const parts = [[Math.floor(minutes / 1440), "d"], [Math.floor(minutes / 60) % 24, "h"], [minutes % 60, "min"]];
  const first = parts.findIndex(([number]) => number);
  return parts.slice(first, first + 2).filter(([number]) => number).map((part) => part.join(" ")).join(" ");
}

function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
