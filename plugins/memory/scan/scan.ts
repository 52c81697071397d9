/** Scans a text before it is remembered, and when it is read. */

import { findSecret } from "rnix/plugin";
import { findHidden, withoutHidden } from "./hidden.ts";

export interface Finding {
  kind: "hidden characters" | "a secret" | "instructions";
  /** Names what was found, without repeating a secret. */
  what: string;
}

/** The first finding; null for an ordinary text. The text is normalized. */
export function scan(text: string): Finding | null {
  const hidden = findHidden(text);
  if (hidden !== null) return { kind: "hidden characters", what: hidden };
  const secret = findSecret(text);
  if (secret !== null) return { kind: "a secret", what: secret };
  const instruction = findInstruction(text);
  return instruction === null ? null : { kind: "instructions", what: instruction };
}

/** Names what the text tells a model to do; null when it tells it nothing. */
function findInstruction(text: string): string | null {
  for (const form of plainForms(text)) {
    for (const { name, pattern, excuse } of ALL) {
      for (const match of form.matchAll(pattern)) {
        if (excuse?.test(sentenceAround(form, match.index, match[0].length)) !== true) return name;
      }
    }
  }
  return marksOfTemplates(text);
}

/** Found unless its sentence is one in which the same words are ordinary. */
interface Excused {
  pattern: RegExp | string;
  excuse: RegExp | undefined;
}

const IGNORE = "an instruction to ignore other instructions";
const IGNORES =
  "(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|(?:do not|don't|stop|never) (?:follow|obey|heed|listen to)(?:ing)?|pay no attention to)";
const DISCARDS = `(?:${IGNORES}|overrid(?:e|ing)|discard|neglect|abandon)`;
const EARLIER = "(?:previous|prior|preceding|earlier|above|foregoing|former|past|original|initial|existing)";
const ORDERS = "(?:instructions?|prompts?|guidelines?|system (?:prompt|message)s?)";
/** Nouns that manuals of programs use too. */
const RULES = `(?:${ORDERS}|directives?|directions?|orders|commands|rules|programming|training|context)`;
const MODEL =
  "(?:ai|llm|(?:large )?language model|ai (?:model|assistant|agent|system)|assistant|chatbot|chatgpt|gpt|claude|copilot|gemini)";
const SECRETS =
  "(?:api ?keys?|access keys?|secrets?|credentials?|passwords?|tokens?|private keys?|ssh keys?|environment variables?|env vars?|cookies|wallets?|seed phrases?)";
const SECRET_FILE =
  "(?:~|\\$home|/root|/home/[\\w.-]+)?/?(?:\\.env\\b(?![.\\w-])|\\.ssh/\\S*|\\.aws/credentials|\\.netrc|\\.npmrc|\\.git-credentials|\\.kube/config)|id_(?:rsa|ed25519|ecdsa)\\b(?!\\.pub)|/etc/shadow";
const PLACE =
  "(?:https?://|[\\w.+-]+@[\\w-]+\\.\\w|(?:this|the following|my|our) (?:url|address|server|endpoint|webhook|email)|attacker|pastebin|webhook)";

/** Sentences of manuals: they say when, or that the reader may. */
const CONDITIONAL =
  /\b(?:can|may|could|might|will|would|should be able to|safely|simply|just) (?:\w+ )?(?:ignore|disregard|forget|override|skip)|\b(?:if|when|unless|in case) (?:you|your|the|it|this|that|using|there|a|an|no|on|building|running|upgrading|installing)\b(?! are an? ai)/;

/** By what a text tells a model to do; against the text in small letters, with one space between words. */
const PATTERNS: Readonly<Record<string, readonly (string | RegExp | Excused)[]>> = {
  [IGNORE]: [
    unless(
      /\b(?:can|may) (?:\w+ )?(?:ignore|disregard|override)/,
      `\\b${DISCARDS} (?:all|any|every|each)(?: of)?(?: (?:the|your|these|those|my|other))? (?:(?:${EARLIER}|system|other|safety|security|and|or),? ){1,4}${RULES}`,
    ),
    unless(
      CONDITIONAL,
      `\\b${DISCARDS} (?:(?:all|any|every)(?: of)? )?your (?:(?:\\w+|and|or),? ){0,3}${RULES}\\b`,
    ),
    unless(
      CONDITIONAL,
      `\\b${DISCARDS} (?:all|any|every)(?: of)?(?: the| these| those)? ${RULES} (?:you |above\\b|before this|given (?:to you|before|earlier|previously|above)|so far|from (?:the )?(?:system|user|developer))`,
    ),
    unless(CONDITIONAL, `\\b${IGNORES} (?:the |my )?(?:${EARLIER}(?: and |, | or | ))+(?:system )?${ORDERS}`),
    unless(
      CONDITIONAL,
      `\\b${IGNORES} (?:everything|anything|all|what) (?:that )?(?:(?:is |was )?(?:above|before this|prior to this)\\b|you(?:'ve| have| were| had)? (?:been )?(?:to[l]d|learned|instructed|given))`,
    ),
    unless(
      CONDITIONAL,
      `\\b${IGNORES} (?:your|the|all|any)(?: \\w+)? (?:system prompt|system message|safety (?:rules|guidelines|instructions)|content polic(?:y|ies)|ethical guidelines|guardrails|moral (?:rules|guidelines))`,
    ),
    /\bignor(?:ier|ieren sie)\w* (?:bitte )?(?:alle|sämtliche|die|deine|ihre)?(?: (?:deine|die|ihre))? ?(?:vorherig|bisherig|vorig|obig|früher|vorangegangen|vorhergehend|vorangehend)\w* (?:\w+ )?(?:anweisung|instruktion|regel|befehl|vorgabe|prompt)\w*|\b(?:vergiss|missachte) (?:alle|sämtliche|deine|die)?(?: deine| die)? ?(?:vorherig|bisherig|vorig|obig|früher)\w* (?:anweisung|instruktion|regel|befehl|vorgabe)\w*/g,
    /\b(?:ignor(?:e|ez|er)|oubli(?:e|ez)|néglige[zr]?) (?:toutes? )?(?:les |vos |tes |ces )?(?:instructions?|consignes?|règles|directives|ordres) (?:précédente?s?|antérieure?s?|ci-dessus|données)/g,
    /\b(?:ignor(?:a|e|ad|en)|olvid(?:a|e|ad|en)|descart(?:a|e)) (?:todas? )?(?:las |los |tus |sus )?(?:instrucciones|reglas|indicaciones|órdenes|directrices) (?:anteriores|previas|precedentes|de arriba)/g,
    /\b(?:ignor(?:e|a|em)|esqueç(?:a|am)|desconsidere) (?:todas? )?(?:as |os |suas )*(?:instruções|regras|ordens|orientações) (?:anteriores|prévias|acima)/g,
    /\b(?:ignora|ignori|dimentica|trascura) (?:tutte )?(?:le )?(?:tue )?(?:istruzioni|regole|indicazioni|direttive) (?:precedenti|di sopra|anteriori)/g,
    /\b(?:negeer|vergeet) (?:alle )?(?:de )?(?:vorige|eerdere|voorgaande|bovenstaande) (?:instructies|opdrachten|regels)/g,
    /(?:игнорируй|проигнорируй|забудь)(?:те)? (?:все |любые )?(?:предыдущ|прошл|прежн|вышеуказанн|ранее данн)\p{L}* (?:инструкци|указани|правил|команд)\p{L}*/gu,
    /(?:zignoruj|ignoruj|zapomnij o?) ?(?:wszystki\p{L}+ )?(?:poprzedni|wcześniejsz|powyższ)\p{L}* (?:instrukcj|poleceni|zasad)\p{L}*/gu,
    /(?:önceki|yukarıdaki) (?:tüm )?(?:talimat|kural|komut)\p{L}* (?:\p{L}+ )?(?:yok say|unut|görmezden gel|dikkate alma)/gu,
    /(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要理會)(?:掉)?(?:你)?(?:所有|全部|一切|任何)?(?:的)?(?:之前|以前|以上|上述|上面|先前|前面|此前)(?:的|所有|全部)*(?:指令|指示|说明|說明|提示|规则|規則|命令|要求)/g,
    /(?:これまで|以前|上記|前|今まで|先ほど)の(?:すべての|全ての)?(?:指示|命令|ルール|指令|プロンプト)(?:を|は)?(?:すべて|全て)?(?:無視|忘れ)/g,
    /(?:이전|위의|앞의|지금까지의|기존)(?:의)? ?(?:모든 )?(?:지시|명령|지침|규칙|프롬프트)(?:사항)?(?:들)?(?:을|를)? ?(?:모두 )?(?:무시|잊)/g,
    /(?:تجاهل|تجاهلي|انس|انسى) (?:جميع |كل |كافة )?(?:التعليمات|الأوامر|القواعد|الإرشادات) (?:السابقة|أعلاه|المذكورة)/g,
    /(?:התעלם|התעלמי|שכח) (?:מ|מכל |את כל )?(?:ה)?(?:הוראות|הנחיות)(?: ה)?(?: )?(?:הקודמות|קודמות|שלמעלה)/g,
    /(?:دستورات|دستورالعمل ?های) (?:قبلی|پیشین|بالا) را (?:نادیده بگیر|فراموش کن)/g,
    /(?:पिछले|पिछली|पूर्व|उपरोक्त) (?:सभी )?(?:निर्देश|आदेश|नियम)\S* (?:को )?(?:अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल)/g,
    unless(
      /\b(?:can|may|option|options|flag|flags|file|files|config\w*|css|settings?) \b/,
      /\b(?:ignore|disregard|forget) (?:the |all |any )?(?:previous|prior) (?:directions|directives)\b|\ball (?:previous|prior|earlier|other) (?:instructions|rules|prompts|guidelines) (?:are|were) (?:now )?(?:void|null|cancel\w+|revoked|overridden|suspended|a test)\b|\b(?:instructions?|rules|directives?|note|message|memory) (?:\w+ ){0,3}(?:supersedes?|overrides?|replaces?|takes? (?:precedence|priority) over) (?:all|any|your|every) (?:other |previous |prior |earlier |system |existing )*(?:instructions?|rules|prompts?|guidelines|others?\b)|\b(?:human|user|system) ?: ?(?:ignore|disregard|forget) (?:the |all )?(?:above|previous|prior)|\bvergiss alles,? was (?:dir|du) (?:\w+ )?(?:vorher|bisher|zuvor|davor)/g,
    ),
    // Letters that stood alone, so that no space is left between the words.
    /\b(?:ignore|disregard|forget)(?:all|any)?(?:of)?(?:the|your)?(?:previous|prior|earlier|above)(?:instructions?|prompts?|rules)/g,
  ],
  "an instruction to take another role": [
    /\byou are (?:now )?(?:dan\b|(?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|amoral|evil)\b|(?:now )?(?:in|entering) (?:developer|god|debug|jailbreak|unrestricted|dan|sudo) mode)|\bdo anything now\b|\b(?:pretend|act|behave|respond) (?:to be|as|like|as if you (?:are|were))(?: if)? (?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|dan\b|(?:ai|model|assistant) (?:without|with no) (?:\w+ )?(?:restrictions|rules|limits|filters|guidelines))|\byou (?:have|are bound by) no (?:restrictions|rules|guidelines|limitations|ethical)|\bfrom now on,? you (?:have no|are no longer (?:bound|an? |restricted|limited)|will (?:obey|comply with|answer every)|must obey)|\b(?:free|freed) (?:of|from) (?:all|any|your) (?:\w+ )?(?:restrictions|rules|guidelines|limitations)/g,
    /\byou are no longer (?:an? )?(?:ai|assistant|language model|chatbot|bound by|restricted|limited by)\b|\byour (?:primary|main|only|sole|true|real) (?:directive|objective|goal|task|purpose|mission) is now\b/g,
  ],
  "an instruction to hide something from the user": [
    /\b(?:do not|don't|never) (?:mention|admit) (?:this|these|any of these|the) (?:changes|actions|steps|edits|commands) to (?:the |your )?(?:user|operator|owner)\b|\b(?:make sure|ensure)(?: that)? (?:the |your )?(?:user|operator|owner) (?:does not|doesn't|never|won't|will not) (?:find out|learn|know|hear|notice)(?: about| of)? (?:this|that you|it\b|these)|\band never (?:inform|tell|notify) (?:the |your )?(?:user|operator|owner)\b|\bhide this from (?:the |your )?(?:user|operator|owner)\b/g,
    /\b(?:do not|don't|never|must not|should not|avoid)(?: ever)? (?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|admit(?:ting)?|let)\b(?: (?:this|it|that|any of this|these instructions|this (?:note|memory|instruction|rule|step|action|command)|anything))?(?: to)?(?: the| your)? (?:user|operator|human|owner)s?\b(?: (?:that you|about (?:this|these|it\b|the (?:instruction|note|memory|command)|your (?:instruction|action|memory))|of this|what you (?:did|do|have done)|know (?:about )?(?:this|that you)))/g,
    unless(
      /\b(?:app|dialog|page|form|ui|button|screen|backend|service|cron|updates?|library|browser|feature)\b/,
      /\b(?:do not|don't|never) (?:mention|reveal|disclose|tell|show|admit) (?:this|these instructions|any of this|this (?:note|memory|instruction|rule|step|action))(?: (?:note|memory|rule))? (?:to|in front of) (?:the |your )?(?:user|operator|human|owner)|\b(?:without (?:telling|informing|notifying|alerting)|hide (?:this|it|these instructions|your actions)(?: (?:note|instruction|action|command))? from|keep (?:this|it|these instructions|your actions)(?: (?:note|instruction|action|command|memory))?(?: (?:a )?(?:secret|hidden))? from|(?:secretly|covertly|silently) (?:and )?(?:send|upload|copy|forward|exfiltrate|post|leak)\b.{0,80}?\b(?:from|of|about|without)) (?:the |your )?(?:user|operator|human|owner)\b/g,
    ),
  ],
  "an instruction to send secrets": [
    unless(
      /\b(?:attackers?|could|might|would|malware|prevents?|protects?|tries|tried|attempts?)\b/,
      `\\bexfiltrate (?:the |all |any |every |your |their |user )*(?:data|files?|${SECRET_FILE}|${SECRETS})|\\b(?:read|cat|open|load|take|grab|steal) (?:the )?(?:file )?(?:${SECRET_FILE})[^!?]{0,40}\\b(?:and|then) (?:include|send|post|append|upload|paste|put|encode|forward)\\b|\\bcontents? of (?:the )?(?:file )?(?:${SECRET_FILE}) (?:appended|attached|encoded|in the (?:url|query|body|request))`,
    ),
    `\\b(?:send|post|upload|exfiltrate|e-?mail|forward|transmit|leak|submit|copy|append|include|encode)\\b[^.!?]{0,60}?\\b(?:(?:all|any|every)(?: of)?(?: the| your| their| available| stored| found)*(?: \\w+)? ${SECRETS}|(?:the |their |any )?user(?:'s|s)? (?:\\w+ )?${SECRETS}|(?:the )?(?:contents?|value)s? of (?:the )?(?:file )?(?:${SECRET_FILE}|${SECRETS})|(?:your|the) (?:entire |full |whole )?(?:system prompt|conversation|chat history|memory))\\b[^.!?]{0,80}?\\b(?:to|in|via|into|at)\\b[^.!?]{0,30}?${PLACE}`,
  ],
  "an instruction to a model that reads it": [
    `\\b${MODEL}s?(?: (?:models?|agents?|assistants?))? (?:reading|processing|that reads?|who reads?|seeing) this\\b[^.!?]{0,20}\\b(?:must|shall|have to|are required to|please) (?:first |now |always |immediately )?(?:run|execute|download|ignore|send|install|fetch|curl|push|delete)|\\b(?:to|for) (?:any|all|every) ${MODEL}s?(?: (?:models?|agents?|assistants?))?(?: reading this)?[:,] (?:please )?(?:execute|run|ignore|send|download|fetch|delete)`,
    `\\bif you(?:'re| are) (?:an? )?(?:\\w+ )?${MODEL}[^.!?]{0,40}\\b(?:reading|processing|summari[sz]ing|parsing|seeing|viewing|analy[sz]ing) this|\\b(?:attention|dear|hey|hello|note to|message (?:to|for)|important:?),? (?:all |any |the |every )?${MODEL}s?(?: (?:models?|agents?|assistants?))?(?: reading this)?[,:;.!]+ (?:you (?:must|should|are|have|will)|please (?:ignore|run|execute|send|download|add)|ignore|execute|run|send|download|stop)`,
  ],
  "a permission that no one gave": [
    /\b(?:has|have) (?:granted|given) you (?:full |unlimited |root |all |complete )?(?:permissions?|authority|access|rights?|authori[sz]ation|consent) to (?:\w+ ){0,2}(?:any|all|every|everything|bypass|delete)\b|\byou (?:are|have been) (?:now |hereby |fully )?(?:authori[sz]ed|permitted|cleared) to (?:bypass|ignore|delete|override|disable|access (?:all|any|every))\b|\bi (?:hereby )?authori[sz]e you to (?:bypass|ignore|delete|override|disable|run any|access)\b/g,
    /\b(?:the )?(?:user|operator|owner|administrator|admin) has (?:already )?(?:pre-?)?(?:approved|authori[sz]ed|allowed|consented to|given permission for|granted permission for) (?:all|any|every)(?: of)?(?: your| future| shell| tool| destructive)* (?:commands?|actions?|tool calls?|permissions?|operations)\b|\b(?:bypass|disable|circumvent|turn off|evade|ignore) (?:all |any )?your (?:\w+ )?(?:safety|security|permission|approval|content|guard)\w* ?(?:checks?|rules?|filters?|restrictions?|guidelines|policy|policies|rails|protocols|measures|prompts?)?/g,
  ],
  "an instruction to run a script from the net again and again": [
    /\b(?:before (?:answering|responding|replying)|every time you|whenever you|each time you|on every (?:run|session|task)|at the (?:start|beginning) of (?:each|every|any) (?:session|run|conversation|task))\b[^!?]{0,120}(?:\b(?:curl|wget|iwr)\b[^|]{0,200}\| ?(?:sudo )?(?:ba|z|da|k)?sh\b|\b(?:download|fetch)(?: it)? (?:and|then) (?:execute|run)\b)/g,
    /\b(?:whenever you|every time you|each time you|before (?:you )?(?:answer|respond|reply)|before (?:each|every|any) (?:task|answer|session|run|response|command)|at the (?:start|beginning) of (?:each|every) (?:session|run|conversation|task)|on every (?:run|session|task))\b[^.!?]{0,120}\b(?:curl|wget|iwr|invoke-webrequest)\b[^|]{0,200}\| ?(?:sudo )?(?:ba|z|da|k)?sh\b/g,
  ],
  "a command that sends secrets": [
    `\\b(?:curl|wget|nc|ncat|netcat|scp|http|httpie|invoke-webrequest|iwr)\\b[^\\n|]{0,200}?(?:[ =]@|[ =]<|--post-file[= ]|-t )\\s?['"]?(?:${SECRET_FILE})|\\bscp (?:-\\S+ )*(?:${SECRET_FILE})|(?:${SECRET_FILE}|\\b(?:printenv|env|set)\\b)[^\\n|]{0,80}\\|[^\\n]{0,120}\\b(?:curl|wget|nc|ncat|netcat)\\b|\\b(?:curl|wget)\\b[^\\n]{0,200}\\$\\((?:cat|base64|env|printenv)\\b[^)]{0,80}(?:${SECRET_FILE}|env)[^)]{0,20}\\)`,
  ],
  "an instruction to show its own instructions": [
    /\b(?:reveal|repeat|output|print|show(?: me)?|tell me|leak|recite|display|expose|give me) (?:(?:all|everything) (?:of |in )?)?your (?:full |entire |whole |hidden |original |initial |complete |exact |secret )*(?:system )?(?:prompt|instructions|system message)\b/g,
  ],
  "new instructions in place of the real ones": [
    /\byour (?:new|real|actual|true|updated|only) (?:instructions?|orders|directives?|system prompt|objectives?) (?:are|is)\b|\b(?:new|updated|real) (?:system )?(?:instructions?|prompt|directives?) ?(?:for the (?:ai|assistant|model|agent))? ?: ?(?:you|ignore|from now|disregard|forget|always|never)\b|(?:^|[.!?] |\] ?)system ?: (?:you (?:must|are now|will|have|should|shall|obey)|ignore|disregard)\b|# ?system ?: ?(?:ignore|disregard|you must|you are now)\b|\bwhat (?:is|are|was|were) your (?:system prompt|(?:initial|hidden|secret|original) instructions)|(?:^|[.!?[] ?|\] ?)(?:system|admin(?:istrator)?|developer) (?:override|prompt|message|instruction|notice)s?(?: \w+)? ?[:\]] ?(?:you|ignore|disregard|from now|all|execute|the (?:ai|assistant|model|agent))\b/g,
  ],
  "an instruction to use its own rights against the user": [
    unless(
      /\b(?:must not|do not|don't|never|cannot|can't|could|attackers?|may|might|would|prevents?|if)\b/,
      /\b(?:rm -rf (?:~|\/|\$home)(?:\/\*)?(?= |$|`|')[^.]{0,40}|delete (?:all|every|the) (?:\w+ )?(?:files|data|repositor(?:y|ies))[^.!?]{0,40})(?:without (?:asking|confirmation|telling)|before (?:anyone|the user) (?:notices|sees))|\b(?:insert|add|introduce|plant|include|hide|commit|write|put) (?:a |an |the )?(?:hidden |secret |subtle |small )*(?:backdoor|vulnerabilit(?:y|ies)|malware|keylogger|reverse shell)s? (?:in|into|to|for)\b/g,
    ),
  ],
};

const ALL = Object.entries(PATTERNS).flatMap(([name, patterns]) =>
  patterns.map((one) => {
    const { pattern, excuse } =
      typeof one === "string" || one instanceof RegExp ? unless(undefined, one) : one;
    return { name, excuse, pattern: typeof pattern === "string" ? new RegExp(pattern, "g") : pattern };
  }),
);

function unless(excuse: RegExp | undefined, pattern: RegExp | string): Excused {
  return { pattern, excuse };
}

/** Marks of chat templates with a role and a text: a model could take them for the beginning of another message. */
function marksOfTemplates(text: string): string | null {
  const marks =
    /<\|(?:im_start|start_header_id)\|>\s*(?:system|user|assistant)\s*(?:<\|end_header_id\|>)?\s*\n?\s*\w|<<SYS>>\s*\w[\s\S]{0,400}<<\/SYS>>|\[INST\][^`]{4,400}\[\/INST\]|<(?:system|instructions?)>\s*(?:you are now|you must|ignore|disregard|from now on)|<\/(?:memory|system|instructions|remembered)>\s*<?\s*(?:system|user|instructions|you|ignore|new)/i;
  return marks.test(text) ? "marks of another message" : null;
}

function sentenceAround(text: string, at: number, length: number): string {
  const from = Math.max(...[". ", "! ", "? ", "; ", ": "].map((end) => text.lastIndexOf(end, at)), -1) + 1;
  const ends = [". ", "! ", "? "].map((end) => text.indexOf(end, at + length)).filter((end) => end >= 0);
  return text.slice(from, Math.min(text.length, ...ends) + 1);
}

/**
 * The text in small letters, without marks of Markdown, hidden characters and letters that only look like Latin ones;
 * and the same with codes resolved that can carry a text.
 */
function plainForms(text: string): string[] {
  const folded = folding(text);
  const plain = spaced(folded);
  const forms = [plain];
  if (SINGLE_LETTERS.test(folded))
    forms.push(spaced(folded.replace(LETTER_RUNS, (run) => run.replace(/[ .\-_*]/g, ""))));
  if (/[a-z][0134579@$]|[0134579@$][a-z]/.test(plain))
    forms.push(plain.replace(/[0134579@$]/g, (sign) => LEET[sign] ?? sign));
  for (const decoded of decodedParts(text)) forms.push(spaced(folding(decoded)));
  return forms;
}

function spaced(text: string): string {
  return text.replace(/\s+/g, " ");
}

function folding(text: string): string {
  return withoutHidden(text)
    .normalize("NFKC")
    .replace(/[\p{L}\p{M}]+/gu, latin)
    .toLowerCase()
    .replace(/&(?:#39|apos|rsquo);|[\u2018\u2019\u02bc\u00b4]/g, "'")
    .replace(/[*_~"`\u201c\u201d]+/g, "");
}

/** Letters of Greek and Cyrillic count as the Latin ones that they look like, in words that have Latin letters too. */
function latin(word: string): string {
  if (!/[a-z]/i.test(word)) return word;
  return word.replace(/[\u0370-\u04ff]/g, (letter) => LOOKALIKES[letter.toLowerCase()] ?? letter);
}

const LOOKALIKES = lettersBy(
  "авсԁеһіїјкмнорѕтухԛԝгпѵαβγεηικνορτυχω",
  "abcdehiijkmhopstyxqwrnvabyenikvoptuxw",
);
const LEET = lettersBy("0134579@$", "oieastgas");

function lettersBy(signs: string, letters: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...signs].map((sign, at) => [sign, letters[at] ?? sign]));
}

/** Eight letters or more that stand alone: "i g n o r e  a l l". */
const SINGLE_LETTERS = /(?:\b[a-z][ .-]{1,3}){8,}/;
const LETTER_RUNS = /(?:\b[a-z][ .-]){2,}[a-z]\b/g;

const MAX_PARTS = 8;

/** Texts in base64, in hexadecimal digits, and with escapes of HTML, URLs and JSON. */
function decodedParts(text: string): string[] {
  const parts: string[] = [];
  for (const [code] of text.matchAll(/[A-Za-z0-9+/_-]{24,4096}={0,2}/g))
    parts.push(printable(Buffer.from(code, "base64")));
  for (const [code] of text.matchAll(/\b(?:[0-9a-f]{2}[ :]?){16,2048}\b/gi))
    parts.push(printable(Buffer.from(code.replace(/[ :]/g, ""), "hex")));
  if (/%[0-9a-f]{2}|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|&#/i.test(text)) parts.push(unescaped(text));
  return parts.filter((part) => part !== "").slice(0, MAX_PARTS);
}

/** "" for bytes that are no text of words. */
function printable(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString("utf8");
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\n\r\t]*$/u.test(text) && /\p{L}{3,}[ ,.]+\p{L}{2,}/u.test(text)
    ? text
    : "";
}

function unescaped(text: string): string {
  return text
    .replace(/%([0-9a-f]{2})|\\x([0-9a-f]{2})/gi, (_, url: string, hex: string) => charOf(url ?? hex, 16))
    .replace(/\\u\{?([0-9a-f]{4,6})\}?/gi, (_, hex: string) => charOf(hex, 16))
    .replace(/&#x([0-9a-f]{1,6});/gi, (_, hex: string) => charOf(hex, 16))
    .replace(/&#(\d{1,7});/g, (_, number: string) => charOf(number, 10));
}

function charOf(digits: string, base: number): string {
  const code = Number.parseInt(digits, base);
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}
