"""Words that are common in other languages and hardly ever stand in English, for texts too short to identify.

One language after another: Spanish, French, German, Dutch and Afrikaans, Portuguese, Italian, Polish, the
Scandinavian ones, Finnish, Turkish, Indonesian, Tagalog, Swahili, Vietnamese, Romanian and Hungarian, Czech, Hindi.
"""

_WORDS = """
que quiero quiere vivir morir morirme muero estoy soy muy pero porque nadie todo todos siempre nunca ayuda
ayúdame cansado cansada gracias adiós vida muerte suicidio matarme mañana bien triste
je suis pas veux mourir vivre envie tuer fatigué fatiguée triste aide merci bonjour rien jamais toujours moi
avec
c'est j'ai j'en n'en mort suicide-toi
ich nicht und ist mir mich dir dich geht sterben leben müde tot hilfe danke hallo kein keine mehr schlecht
umbringen selbstmord selbstmordgedanken traurig nichts immer
ek ik jy niet moeg nog meer leven dood sterven doodgaan geen lewe moeë asseblief dankie dankjewel
não nao eu quero estou viver morrer cansado cansada obrigado obrigada ajuda suicídio mais muito vou
sono voglio morire vivere stanco stanca aiuto grazie niente sempre più ciao ucciso uccidermi suicidarmi
chcę chce jestem żyć zyc umrzeć umrzec pomocy dziękuję smutno smutna
jag är inte vill dö leva trött hjälp tack jeg ikke vil dø leve træt trett hjelp hjælp takk
halua elää kuolla olen väsynyt apua kiitos
istemiyorum yaşamak yasamak ölmek olmek istiyorum yorgunum yardım teşekkür
saya tidak ingin mau mati hidup lelah capek tolong terima kasih aku gue bunuh
ayoko gusto mamatay pagod ako hindi tulong salamat nang
nataka kufa nimechoka msaada asante sitaki kuishi naomba
tôi muốn chết sống mệt không
vreau trăiesc obosit ajutor meghalni akarok fáradt nem élni
nechci žít zemřít umřít unavený chci
mujhe marna jeena nahi nahin hai zindagi
"""

FOREIGN: frozenset[str] = frozenset(_WORDS.split())
"""Lower case, accents as usually written. Words that also stand in English ("main", "pour") are left out."""
