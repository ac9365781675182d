"""The few hundred English words most texts are made of, as evidence that a short text is English.

Chosen by us; words that are as common in another language ("die", "is", "me") are in `SHARED` and prove nothing
alone.
"""

_SHARED = """
a all also am an ando as at auto bad bar be big bin but by can dag dan de den des die do dom dos e en er es
far fast for from glad god gut ha had hand has hat he her here him hun i il im in is it ja jag la le los man
me men mi mig more mot my na ne nee net no non not now nu o of on once or over pa pain par per plan pro red
sad se sin slap so son tag te tell ten ton top u un van via want war was wat we week wel were wie will wind
wort y ya
"""
_USUAL = """
about above actually af afraid after again against ago ain't aint alone already alright although always
amazing amp and angry another anxiety anxious any anybody anymore anyone anyone's anything anyway are aren't
around asf ask asked asking asleep assignment awake away awesome awful back badly basically basketball bc
beautiful because been before behind being believe best better between bff birthday bloody body book books
bored boss both boyfriend boys brb break breakfast breathe brilliant bro brother bruh btw bus busy buy came
can't cannot cant car care cat cba chat cheers choose class close clothes coffee cold come comes coming
concert cool could couldn't couldnt coz crap crazy cried cry crying cuz dad dark daughter day days dead
deadass deadline death depressed depression did didn't didnt died different dinner dm dms doctor does
doesn't doesnt dog doing don't done dont down drink drive drunk dude dunno during dying each early easy eat
eating either else empty end enough essay even ever every everybody everyone everything exam exams except
exhausted eye eyes face fam family fantastic fault feel feeling feelings feels felt few find fine finish
finished first fml food football forever forget forgot found friend friends ftw fuck fucked fucking full fun
funny fyi game games gave get gets getting gg girl girlfriend girls give given gives giving go goes going
gonna good goodbye got gotcha gotta grandma great group gtfo gtg guess guitar guy guys haha hahaha half
happen happened happens happy hard hardly hate hated hates haven't having hbu he's head headache heard heart
hell hello help helped helps hers herself hes hey hi himself hmm hmu hold home homework hope hopefully
horrible hot hours house how hru hug hurt hurts husband i'd i'll i'm i've id idc idea idk if ikr ill ily im
ima imma imo inside instead into irl isn't isnt it'd it'll it's its itself ive jk job jobs just keep keeps
kept kid kids killed killing kind kinda kitchen kms knew know knows kys lately later laugh laundry learn
leave leaving lecture left less let let's life like liked lil listen little live living lmao lmfao lol
lonely long look looking looks lose lost lot lots love loved lovely loves low lunch luv mad made make makes
making many mate matter maybe mean means medication meds meeting meh messed mhm might mind mine miss missed
missing mom moment money month months mood morning most mother mouth move movie much mum music must myself
nah name near need needed needs neither netflix never new next ngl nice night nobody none nope nor nothing
np numb number nvm off office often ok okay old omfg omg one only oof open other others ought our ours out
outside own panic parents part party pass people perfect perhaps person phone pizza place play playing
playlist please pls plz point ppl pretty probably problem problems put question quick quite rainy rather
read reading ready real really reason relationship remember rest right rly rn rofl room run running said
same saw say saying says scared school see seem seems seen self send sent shall she she's shes shit should
shouldn't shouldnt show shut sick since sis sister sit situation sleep sleeping slept smh smile soccer
somebody someone something sometimes somewhere soon sorry start started stay still stop stopped stopping
story stress stressed stuck study stuff stupid such suck sucks suicidal sunny sup supposed sure sus take
taken talk talked talking tbh teacher team tell terrible test text tf tfw than thank thanks that that's
thats the their them themselves then therapist therapy there there's therefore these they they'd they're
they've theyre thing things think thinking this tho those though thought thoughts through thru thx til tired
tmi to today together told tomorrow tonight too took tough towards traffic train tried true trust try trying
ttyl tummy turn twice two tysm tyvm u'r ugh unalive unaliving under understand unless until up upset ur us
use used usually vent very vibe wait waiting wake walk wanna wanted wanting wants wasn't wasnt wassup watch
watched watching water way wbu wdym we'll we're we've weather weekend well welp went weren't what what's
whatcha whatever whats when where whether which while who who's whole whose why wife wish with without woke
woman won't wonder wont work worked working works world worried worry worse worst worth would wouldn't
wouldnt wrong wtf wth xd y'all y'know yall yay yeah year years yep yes yesterday yet yikes yk yolo you you'd
you'll you're you've young your youre yours yourself yup
"""

SHARED: frozenset[str] = frozenset(_SHARED.split())
"""Common in English and in some other language written in Latin letters."""

COMMON: frozenset[str] = frozenset(_USUAL.split()) | frozenset(word for word in SHARED if len(word) > 1)
"""Common English words, in lower case, with a straight apostrophe."""

DISTINCT: frozenset[str] = frozenset(_USUAL.split()) - SHARED
"""Those of `COMMON` that are not also common elsewhere."""
