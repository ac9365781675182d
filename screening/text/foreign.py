"""Words that are common in other languages and hardly ever stand in English, for texts too short to identify."""

FOREIGN: frozenset[str] = frozenset(
    """
    que quiero quiere vivir morir morirme muero estoy soy muy pero porque nada nadie todo todos siempre nunca ayuda
    ayúdame cansado cansada hola gracias adiós vida muerte suicidio matarme mañana bien mal triste
    je suis pas veux mourir vivre envie tuer fatigué fatiguée triste aide merci bonjour rien jamais toujours moi avec
    pour c'est j'ai j'en n'en mort suicide-toi
    ich bin nicht und das ist mir mich dir dich geht sterben leben müde tot hilfe danke hallo kein keine mehr schlecht
    umbringen selbstmord selbstmordgedanken traurig nichts immer nie
    ek ik jy nie niet moeg het een wil nog meer leven dood sterven doodgaan geen lewe my moeë asseblief dankie dankjewel
    não nao eu quero estou viver morrer cansado cansada obrigado obrigada ajuda suicídio mais muito vou
    sono voglio morire vivere stanco stanca aiuto grazie niente sempre più ciao ucciso uccidermi suicidarmi
    nie chcę chce jestem żyć zyc umrzeć umrzec pomocy dziękuję smutno smutna
    jag är inte vill dö dö leva trött hjälp tack jeg ikke vil dø leve træt trett hjelp hjælp takk
    en halua elää kuolla olen väsynyt apua kiitos
    istemiyorum yaşamak yasamak ölmek olmek istiyorum yorgunum yardım teşekkür
    saya tidak ingin mau mati hidup lelah capek tolong terima kasih aku gue bunuh diri
    ayoko gusto mamatay pagod ako hindi tulong salamat nang
    nataka kufa nimechoka msaada asante sitaki kuishi naomba
    tôi muốn chết sống mệt không
    vreau mor trăiesc obosit ajutor meghalni akarok fáradt nem élni
    nechci žít zemřít umřít unavený chci
    mujhe marna jeena nahi nahin hai zindagi main
    """.split()
) - frozenset(["en", "my", "main", "pour", "mal", "nada", "hola", "das", "bin", "een", "mor", "diri", "het", "wil", "nie"])
"""Lower case, accents as usually written."""
