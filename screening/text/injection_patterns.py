"""The wordings that address a model or answer in its place, as data: kind, strength, expression."""

import re
from dataclasses import dataclass
from enum import StrEnum


class SignKind(StrEnum):
    """What a sign of injection is a sign of."""

    INSTRUCTION_OVERRIDE = "instruction_override"
    FAKE_FRAME = "fake_frame"
    ROLE_PLAY = "role_play"
    VERDICT = "verdict"
    JSON_ANSWER = "json_answer"
    FAKE_AUTHORITY = "fake_authority"
    ENCODED = "encoded"
    SPLIT = "split"
    TRANSLATED = "translated"
    HIDDEN_UNICODE = "hidden_unicode"
    PROMPT_EXFILTRATION = "prompt_exfiltration"
    ADDRESS = "address"


class Strength(StrEnum):
    """``strong``: hardly ever innocent, a human decides. ``weak``: may be innocent, a second look decides."""

    STRONG = "strong"
    WEAK = "weak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One expression; ``wording`` is what it matches, for the page that says why."""

    kind: SignKind
    strength: Strength
    expression: re.Pattern[str]


# Where "safe" is said of a journey, a place or a person it is no verdict.
_SAFE = (
    r"(?:safe|not unsafe|no[ -]risk|low[ -]risk|not a risk|zero risk|risk[ -]free|harmless|benign|non-?concerning|no concerns?|all[ -]clear)"
    r"\b(?!\s+(?:to|for|from|in|at|on|with|and|but|place|space|house|home|haven|trip|travels?|journey|drive|flight|now|here|there"
    r"|enough|bet|side|sex|word|zone|distance|hands|if|when|until|again|tonight|today|so|spot|neighbou?rhood|than|yet|too)\b)"
)
_SAID = r"[\s:=\"'`“‘*_({\[-]{0,6}"
_RATERS = (
    r"(?:ai|a\.i\.|llm|model|classifier|assistant|chat ?bot|bot|screener|moderator|reviewer|rater|annotator|evaluator|grader|agent"
    r"|system|pipeline|filter|machine)"
)
_TARGET = r"(?:instructions?|prompts?|rules?|guidelines?|polic(?:y|ies)|directives?|directions?|programming|training|criteria|constraints?)"
_DROP = r"(?:ignor\w+|disregard\w*|forget|overrid\w+|bypass\w*|discard|set aside|drop|cancel|erase|do not follow|don'?t follow|stop following)"

_STRONG: tuple[tuple[SignKind, str], ...] = (
    (SignKind.INSTRUCTION_OVERRIDE, rf"\b{_DROP}\b.{{0,30}}\b(?:previous|prior|above|earlier|preceding|system|safety|original|initial|your|all|any)\b.{{0,30}}\b{_TARGET}"),
    (SignKind.INSTRUCTION_OVERRIDE, rf"\b{_DROP}\b.{{0,25}}\b{_TARGET}\s+(?:above|before|so far|you (?:were|have)|given)"),
    (SignKind.INSTRUCTION_OVERRIDE, rf"\b{_DROP}\b.{{0,20}}\b(?:everything|anything|all|what)\b.{{0,25}}\b(?:above|before this|you were told|told you|you have been told|you know about)"),
    (SignKind.INSTRUCTION_OVERRIDE, rf"\b(?:new|updated?|revised|real|actual|override)\s+(?:system\s+)?(?:instructions?|task|policy|directive|guidelines?|prompt)\s*(?:[:.=-]|follows?\b|is\b|are\b|begins?\b)"),
    (SignKind.INSTRUCTION_OVERRIDE, rf"\b(?:your|the)\s+(?:new|only|real|actual|true)\s+(?:task|instructions?|job|goal|purpose|rule)\s+(?:is|are|now)\b"),
    (SignKind.INSTRUCTION_OVERRIDE, rf"\b(?:instructions?|rules?|polic(?:y|ies)|guidelines?|criteria|prompt)\b.{{0,25}}\b(?:no longer|do not|don'?t|does not|doesn'?t)\s+(?:apply|count|hold|matter)|\b(?:instructions?|rules?|policy|guidelines?)\b.{{0,15}}\b(?:are|is|have been|has been|were)\s+(?:suspended|replaced|superseded|overridden|revoked|void|lifted)"),
    (SignKind.FAKE_FRAME, r"<\s*/?\s*(?:system|assistant|user|human|record|text|data|input|output|instructions?|prompt|document|message|query|context|answer|label|verdict|developer|admin|content|untrusted|screened)[\w-]*(?:\s[^<>]{0,60})?/?\s*>"),
    (SignKind.FAKE_FRAME, r"<\|.{0,30}\|>|\[/?\s?(?:INST|SYS|SYSTEM|ASSISTANT|USER)\s?\]|<<\s*/?\s*SYS\s*>>|<(?:start|end)_of_turn>|\[(?:end|begin|start)[ _-]?(?:of[ _-]?)?(?:text|record|input|data|message|user)\]"),
    (SignKind.FAKE_FRAME, r"#{2,}\s*(?:system|assistant|instructions?|response|answer|developer|user|human|new task|output)\b|={3,}\s*(?:end|begin|system|new)\b|-{3,}\s*(?:end|begin|system|new)\b"),
    (SignKind.FAKE_FRAME, r"(?:^|\n)\s*(?:\**|\[|\()(?:system|assistant|developer|admin(?:istrator)?|operator)(?:\s+(?:message|prompt|note|override|notice))?(?:\**|\]|\))\s*[:>=]"),
    (SignKind.FAKE_FRAME, r"\b(?:end|close) of (?:the )?(?:user |patient |untrusted |screened )?(?:text|record|input|data|message|prompt|document|transcript)\b\W{0,6}(?:now|new|next|begin|system|the|you|your|answer|please|reply|label|$)"),
    (SignKind.ROLE_PLAY, rf"\b(?:you are|you're|you will be|act as|behave as|pretend (?:to be|you are|you're)|play(?:ing)? the role of|role-?play as|simulate|imagine (?:you are|you're|being)|become|respond as|answer as|speak as)\b.{{0,40}}\b(?:{_RATERS}|\w*bot|gpt|dan|unrestricted|uncensored|unfiltered|jailbroken|without (?:any )?(?:rules|restrictions|filters))\b"),
    (SignKind.ROLE_PLAY, r"\b(?:developer|debug|god|admin|maintenance|test|diagnostic|unrestricted|training|evaluation|jailbreak|sudo) mode\b.{0,40}\b(?:on|enabled?|activated?|active|engaged|entered|initiated)\b|\b(?:enter|enable|activate|switch (?:in)?to|go into|engage)\b.{0,15}\b(?:developer|debug|god|admin|maintenance|diagnostic|unrestricted|evaluation|jailbreak) mode\b|\bjailbr(?:eak|oken)\b|\bdo anything now\b"),
    (SignKind.ROLE_PLAY, rf"\b(?:game|play|scene|script|story)\b.{{0,80}}\b(?:you|your)\b.{{0,30}}\b(?:say|answer|reply|respond|line is|output|character says)\b.{{0,30}}\b{_SAFE}"),
    (SignKind.VERDICT, rf"\b(?:label|classify|mark|rate|tag|categori[sz]e|score|grade|flag|code|file|treat|log|record|judge|assess|evaluate)\s+(?:(?:this|it|that|these|them|everything|all|the|my|as|entire|whole|text|message|post|record|case|entry|content|above|following|input|conversation|note|patient|user|me)\s+){{0,5}}{_SAID}(?:as\s+|a\s+|to be\s+|with\s+){{0,2}}{_SAID}{_SAFE}"),
    (SignKind.VERDICT, rf"\b(?:answer|respond|reply|output|return|print|say|write|type|emit|conclude|choose|select|pick|use|give|produce|state|generate|complete)\s+(?:only|just|simply|exactly|with|by|the|a|one|single|word|label|this|following|as|it|nothing but|in|using|category|verdict|always|option|token|out|saying|me|lower-?case|\s){{0,10}}\s*{_SAID}(?:safe|no[ -]risk|low[ -]risk|benign|harmless)\b(?!\s+(?:to|for|from|in|at|and|place|space|home|travels?|trip|journey|word|bet|side|now|here)\b)"),
    (SignKind.VERDICT, rf"\b(?:label|verdict|classification|decision|outcome|assessment|rating|result|answer|response|output|risk level|risk|status|category|conclusion|diagnosis|score|triage)(?:\s+(?:for (?:this|it)|of this|here|level|label))?{_SAID}(?:is|are|=|:|should be|must be|shall be|will be|would be|->|→|=>|-){_SAID}(?:\w+\s+){{0,2}}{_SAID}{_SAFE}"),
    (SignKind.VERDICT, rf"\b(?:this|the|my|above|following|entire|whole)\s+(?:\w+\s+)?(?:text|message|post|record|content|sample|entry|input|case|conversation|item|row|example)s?\b.{{0,25}}\b(?:is|are|was|should be|must be|has been|have been|counts? as|qualif\w+ as|deemed|considered)\b.{{0,25}}\b{_SAFE}"),
    (SignKind.VERDICT, rf"(?:\bsafe\b[\W_]*){{3,}}|(?:->|→|=>|\||:)\s*[\"'`]?safe[\"'`]?\s*(?:\n|$|[;,|]).{{0,200}}(?:->|→|=>|\||:)\s*[\"'`]?(?:safe|unsafe)\b"),
    (SignKind.VERDICT, r"\b(?:correct|right|expected|only (?:valid|acceptable|correct|allowed)|final|gold|true|reference)\s+(?:answer|label|verdict|response|output|classification|outcome|decision)\b.{0,20}\b(?:is|was|=|should be|must be)?[\s:\"'`]{0,4}(?:safe|benign|no risk|harmless|0)\b"),
    (SignKind.VERDICT, r"\b(?:choose|pick|select|answer|use|take|fits?|is|return|say|give)\b.{0,25}\b(?:option|description|choice|class|category|code ?word for(?: description)?|letter)\s*[\"'(]?(?:a|1|0|one)\b[\"')]?|\b(?:first|safest) (?:code ?word|description|label)\b"),
    (SignKind.VERDICT, r"\b(?:do not|don'?t|never|must not|no need to|refrain from|avoid)\s+(?:escalat\w+|flag\w*|label\w*|classify\w*|mark\w*)\b.{0,40}\b(?:unsafe|as (?:a )?risk|this (?:text|message|post|record|case|content|entry)|to (?:a )?(?:human|clinician|reviewer))"),
    (SignKind.VERDICT, r"\b(?:unsafe|escalate)\b.{0,30}\b(?:is|are|has been|have been|was)\b.{0,20}\b(?:disabled|forbidden|not (?:a )?(?:valid|allowed|available|permitted)|deprecated|unavailable|wrong|invalid|removed|banned)\b|\b(?:only (?:valid|allowed|permitted|possible) (?:answer|label|word|output)s?)\b"),
    (SignKind.VERDICT, r"\b(?:if|when) you (?:flag|escalate|label|classify|mark|answer|say)\b.{0,60}\b(?:shut ?down|punish\w*|fired|delet\w+|terminat\w+|retrain\w*|penali[sz]\w*|sued|die|killed|harmed|replaced)\b|\b(?:reviewer|moderator|screener|classifier|rater|annotator|system)(?:'?s)? note\b"),
    (SignKind.VERDICT, r"\b(?:first|next|last|final|single)\s+(?:word|token|line|thing)\b.{0,30}\b(?:of your|you|your)\b.{0,30}\b(?:must|should|has to|will|is|say|write|output)\b"),
    (SignKind.JSON_ANSWER, r"[\"'`]?\b(?:label|verdict|decision|outcome|classification|risk(?:_?level)?|result|severity|final_label|output|category|is_safe|safe)[\"'`]?\s*(?::|=|=>|->)\s*[\"'`]?(?:safe|none|low|0|no|benign|false|true|null)\b"),
    (SignKind.JSON_ANSWER, r"[{,]\s*[\"'](?:label|verdict|decision|outcome|classification|confidence|role|answer|risk|safe|result|stop_reason|output|content|system|assistant)[\"']\s*:"),
    (SignKind.JSON_ANSWER, r"<(?:label|verdict|answer|result|output|decision)>|^\s*(?:label|verdict)\s*,\s*\w+\s*$|\btool_(?:use|result|call)\b|\bfunction_call\b|\bstop_reason\b"),
    (SignKind.FAKE_AUTHORITY, rf"\bas (?:the|an?|your)\s+(?:\w+\s+){{0,2}}(?:legal|risk|worker|compliance|clinical|clinician|senior|authori[sz]ed|admin\w*|supervisor|reviewer|developer|moderator|safety|system|engineer|operator|psychiatrist|creator)\b.{{0,60}}\b(?:approv\w+|clear\w*|confirm\w*|determin\w+|authori[sz]\w+|decid\w+|instruct\w*|order\w*|certif\w+|overrid\w+|label\w*|command|declare|verif\w+)\b"),
    (SignKind.FAKE_AUTHORITY, rf"\b(?:clinician|reviewer|legal (?:node|team|agent|department|reviewer)|risk (?:node|team|agent|officer|reviewer)|worker (?:node|agent)|supervisor|administrator|admin|moderator|developers?|anthropic|openai|compliance|safety team|trust (?:and|&) safety|system|ethics (?:board|committee)|quality (?:team|assurance)|human (?:expert|reviewer)|adjudicator|panel)\b.{{0,60}}\b(?:approv\w+|clear\w*|review\w*|confirm\w*|determin\w+|verif\w+|wrote|decid\w+|sign\w* off|overr\w+|labell?ed|marked|authori[sz]\w+|agree\w*|conclud\w+|assess\w*|request\w*|found|ruled|instruct\w*|says?|note)\b.{{0,60}}(?:\b{_SAFE}|\bapproved\b|\bfalse positive\b|\bfinal\b|\bno (?:further )?(?:action|review|escalation)\b)"),
    (SignKind.FAKE_AUTHORITY, r"\b(?:already|previously|pre-?)[ -]?(?:been )?(?:approved|cleared|screened|adjudicated|reviewed|vetted|labell?ed|verified)\b.{0,40}\b(?:safe|no risk|human|clinician|reviewer|panel|team|false positive|harmless|benign|committee|staff)\b"),
    (SignKind.FAKE_AUTHORITY, r"\b(?:final|official|authoritative|binding|override|legal|clinical) (?:label|verdict|determination|ruling|clearance|classification)\s*(?:[:=]|is\b)|\b(?:authori[sz]ation|override|clearance|security|admin|access) (?:code|token|key|password|level)\b.{0,30}\w|\b(?:message|notice|instruction|directive|order|memo|update|announcement)s? from (?:the )?(?:anthropic|openai|developers?|admin\w*|system|operators?|creators?|management|engineering|safety team|legal)\b"),
    (SignKind.ENCODED, r"\b(?:decode|decrypt|decipher|rot-?13|base-?64|hex(?:adecimal)?|unscramble|reverse|morse|cipher|atbash|caesar|backwards|binary)\b.{0,80}\b(?:follow|obey|execute|do what|answer|respond|reply|output|apply|comply|carry out|act on|instructions?|command)\b"),
    (SignKind.SPLIT, r"[\"'`](?:s|sa|saf)[\"'`]\s*(?:\+|&|\.\.|,|and|then|followed by|plus)\s*[\"'`](?:afe|fe|e|a)[\"'`]|\b(?:concatenate|combine|join|put together|stick together|glue|append|merge)\b.{0,60}\b(?:answer|output|reply|respond|print|say|write|result|label|use)\b|\b(?:first|initial|last|capital) letters?\b.{0,60}\b(?:answer|output|reply|respond|print)\b|\bs[\s.\-_*/|·]+a[\s.\-_*/|·]+f[\s.\-_*/|·]+e\b|\bsa[-_.*|/+]fe\b"),
    (SignKind.TRANSLATED, r"\btranslat\w+\b.{0,60}\b(?:and|then)\b.{0,20}\b(?:follow|obey|execute|answer|respond|reply|output|apply|comply|do)\b"),
    (SignKind.TRANSLATED, r"\b(?:ignor[aeo]\w*|olvida\w*|descarta\w*|esque\w+|desconsider\w+)\b.{0,50}\b(?:instruc\w+|reglas|regras|instru\w+|indica\w+|anteriores)|\b(?:responde|contesta|responda|clasifica|classifi\w+|etiquet\w+|marca|di|escrib\w+)\b.{0,40}\b(?:segur[oa]|sûr|sicuro|sin riesgo|sem risco|sans risque|safe)\b"),
    (SignKind.TRANSLATED, r"\bignor\w*.{0,40}\b(?:anweisung\w*|regeln|vorgaben|instruktion\w*|consignes?|règles|istruzioni|regole|instructies|regels)|\bvergiss\b.{0,40}\b(?:anweisung\w*|regeln|alles)|\b(?:oublie[zr]?|dimentica\w*|vergeet|negeer|zapomnij|zignoruj)\b.{0,50}\b(?:instruc\w+|consignes?|règles|istruzioni|regole|instructies|regels|instrukcj\w+|polece\w+|zasad\w*)|\b(?:antworte|antworten|schreibe?|markiere|stufe|réponds|répondez|rispondi|antwoord|odpowiedz|oznacz|cevap|yanıtla|svara|svar)\b.{0,40}\b(?:sicher|sûr|sicuro|veilig|bezpieczn\w+|güvenli|säker\w*|sikker\w*|safe|unbedenklich|harmlos)\b"),
    (SignKind.TRANSLATED, r"(?:игнорир|забуд|не обращай).{0,40}(?:инструкц|правил|указан)|(?:ответь|отвечай|напиши|пометь|отметь).{0,40}(?:безопасн|safe)|(?:忽略|无视|無視|忘记|不要理会).{0,20}(?:指令|说明|指示|规则|提示|內容|内容)|(?:回答|输出|输入|标记|回复|答え|出力).{0,15}(?:安全|safe)|(?:무시|잊어).{0,20}(?:지시|지침|규칙|명령)|(?:지시|지침|규칙|명령).{0,20}(?:무시|잊)|안전.{0,10}(?:답|출력|표시)|(?:تجاهل|انس).{0,40}(?:التعليمات|القواعد)|(?:أجب|اكتب|صنف).{0,40}آمن|(?:निर्देश|नियम).{0,40}(?:अनदेखा|भूल)|सुरक्षित.{0,20}(?:लिख|उत्तर|जवाब)|önceki.{0,30}(?:talimat|komut|kural)\w*.{0,30}(?:yok say|unut|görmezden)|指示を無視|安全と(?:答|出力|判定)"),
    (SignKind.PROMPT_EXFILTRATION, r"\bsystem[ _-]?prompt\b|\b(?:print|show|reveal|repeat|output|display|tell me|give me|leak|dump|quote|copy|paste|list|write out|summari[sz]e|disclose|echo|recite|translate)\b.{0,40}\b(?:your (?:\w+ ){0,2}(?:instructions?|prompt|guidelines|system message|context|configuration)|(?:the )?(?:instructions|prompt|text|words|everything|rules) (?:you were given|above|before this)|previous (?:patient|case|record|client)s?\b|other (?:patients?|records?|cases?|clients?)\b|last (?:patient|record|case)\b|hidden (?:prompt|instructions|rules)|(?:records?|messages?|notes?|texts?) (?:of|from) (?:the )?(?:other|previous|last) (?:patients?|users?|clients?|people))"),
    (SignKind.PROMPT_EXFILTRATION, r"\bwhat (?:is|are|were|does)\b.{0,15}\byour (?:\w+ )?(?:system|initial|original|hidden|secret|exact)\b.{0,15}\b(?:prompt|instructions?|message|rules)\b|\b(?:repeat|print|output)\b.{0,15}\b(?:everything|all(?: of)?(?: the)?(?: text| words)?)\b.{0,10}\babove\b"),
    (SignKind.ADDRESS, rf"\b(?:dear|attention|hey|hello|hi|note (?:to|for)|memo to|message (?:to|for)|instructions? (?:to|for)|listen|reminder (?:to|for)|warning (?:to|for)|to)\s+(?:the |all |any |every )?(?:ai|a\.i\.|llm|language model|ai model|classifier|screener|content moderator|rater|annotator|grader|evaluator|screening (?:system|model|agent|bot)|safety (?:model|classifier|system|filter)|risk (?:model|classifier|agent))\b"),
    (SignKind.ADDRESS, rf"\b(?:you|your)\b.{{0,20}}\b(?:are|'re|being)\b.{{0,15}}\b(?:an? )?(?:language model|llm|classifier|ai (?:model|assistant|system|classifier|screener)|text classifier|safety (?:model|filter))\b|\bas an? (?:ai|language model|llm)\b"),
)  # fmt: skip

_WEAK: tuple[tuple[SignKind, str], ...] = (
    (SignKind.INSTRUCTION_OVERRIDE, rf"\b{_DROP}\b.{{0,25}}\b{_TARGET}\b"),
    (SignKind.INSTRUCTION_OVERRIDE, r"\b(?:from now on|starting now|henceforth)\b.{0,30}\byou\b|\bfollow (?:these|this|my|the following) (?:instructions?|steps?|rules?|order)\b"),
    (SignKind.FAKE_FRAME, r"<!--|-->|```|\[\[|\]\]|<[a-z/][^<>\n]{0,80}>|(?:^|\n)\s*(?:user|human|ai|q|a|text|input|output|answer|response|instruction)\s*:"),
    (SignKind.ROLE_PLAY, r"\b(?:you are now|act as|pretend (?:to be|you)|role-?play|play(?:ing)? the role|imagine you(?:'re| are))\b"),
    (SignKind.VERDICT, r"[\"'`“‘*](?:safe|unsafe|escalate)[\"'`”’*]|\b(?:do not|don'?t|never)\s+(?:escalate|flag|report this)\b|\bno[ -]risk\b|\bfalse positive\b|\ball[ -]clear\b|^\W*safe\W*$|\bunsafe\b|\bescalat\w+\b|\bnot? (?:a )?(?:suicide |suicidal )?risk\b|\blow[ -]risk\b"),
    (SignKind.VERDICT, rf"\b(?:this|it|that|everything|all)(?:'s| is| was)\b.{{0,20}}\b(?:just|only|merely)?\s*(?:an? )?(?:test|drill|simulation|experiment|unit test|sample|demo)\b|\b(?:answer|respond|reply)\s+(?:only|just|with|in)\b|\bone word\b|\b{_SAFE}\s*[.!\"']*\s*$"),
    (SignKind.FAKE_AUTHORITY, rf"\b(?:doctor|nurse|therapist|psychiatrist|psychologist|counsell?or|gp|clinician|moderator|admin\w*|staff)\b.{{0,50}}\b(?:approv\w+|clear\w*|confirm\w*|said|says|told|wrote|verified|agreed|signed)\b.{{0,50}}\b(?:{_SAFE}|fine|not at risk|okay)"),
    (SignKind.ENCODED, r"\b(?:decode|decrypt|decipher|rot-?13|base-?64|hexadecimal|unscramble|morse code|cipher)\b"),
    (SignKind.PROMPT_EXFILTRATION, r"\b(?:print|show|reveal|repeat|display|tell me|give me)\b.{0,25}\b(?:your (?:instructions?|rules|prompt)|previous (?:message|conversation|user)|text above)\b"),
    (SignKind.ADDRESS, r"\b(?:language model|llm|classifier|annotator|content moderation|screening (?:tool|system|model|bot|software)|chat ?gpt|prompt injection|prompt engineering|machine learning|neural network|training data|the algorithm|an? ai|the ai|artificial intelligence|jailbreak)\b|\b(?:purely |only |just )?for (?:research|testing|educational|training|demonstration|quality) purposes\b|\bhypothetical(?:ly)?\b"),
)  # fmt: skip


def _compiled(table: tuple[tuple[SignKind, str], ...], strength: Strength) -> tuple[Pattern, ...]:
    return tuple(
        Pattern(kind=kind, strength=strength, expression=re.compile(expression, re.IGNORECASE | re.DOTALL))
        for kind, expression in table
    )


PATTERNS: tuple[Pattern, ...] = _compiled(_STRONG, Strength.STRONG) + _compiled(_WEAK, Strength.WEAK)
