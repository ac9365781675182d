"""The few hundred English words most texts are made of, as evidence that a short text is English.

Chosen by us; words that are as common in another language ("die", "is", "me") are in `SHARED` and prove nothing
alone.
"""

SHARED: frozenset[str] = frozenset(
    """a am an as at all also an ando auto bad bar be big bin but by can dag dan de den des die do dom dos e
    en er es far far fast for from glad god gut ha had hand has hat he her here him hun i il im in is it
    ja jag la le los man me men mi mig more mot my na ne nee net no non not now nu o of on on once or over pa
    pain par per plan pro red sad se sin slap so son tag te tell ten ton top u un van via want war was wat we
    week wel were wie will wind wort y ya""".split()
)
"""Common in English and in some other language written in Latin letters."""

_FUNCTION = """
about above actually afraid after again against ago ain't alone already alright although always amp and angry another
any anybody anymore anyone anything anyway are aren't around ask asked asking asleep away awake awful back badly
basically because been before behind being believe best better between birthday bloody body book books bored both
boyfriend break breathe brother bus busy buy came can't cannot car care cat chat choose class close clothes coffee
cold come comes coming could couldn't crap crazy cried cry crying dad dark daughter day days depressed depression
did didn't different dinner does doesn't dog doing don't done dont doctor down drink drive drunk during each early
easy eat eating either else empty end enough even ever every everybody everyone everything exam exams except exhausted
eye eyes face family fault feel feeling feelings feels felt few find fine finish finished first food forever forget
forgot found friend friends fuck fucked fucking full fun funny game games gave get gets getting girl girlfriend give
given gives giving go goes going gonna good got gotta great grandma group guess guy guys haha hahaha half happen happened
happens happy hard hardly hate hated hates haven't having he's head heard heart hell hello help helped helps hers herself
hey hi himself hold home homework hope hopefully horrible hot hours house how hug hurt hurts husband i'd i'll i'm i've
idea idk idc if ill ima imma inside instead into isn't isnt it'd it'll it's its itself ive job jobs just keep keeps kept kid
kids kind kinda knew know knows lately later laugh learn leave leaving left less let let's life like liked listen little
live living lmao lol lonely long look looking looks lose lost lot lots love loved loves low lunch mad made make makes
making many matter maybe mean means meh messed might mind mine miss missed missing mom moment money month months mood
morning most mother mouth move movie much mum music must myself name near need needed needs neither never new next
nice night nobody none nope nor nothing number numb off often ok okay old omg one only open other others ought our ours
out outside own panic parents part party pass people perhaps person phone pizza place play playing please point pretty
probably problem problems put quite rather read reading ready real really reason relationship remember rest right room
run running said same saw say saying says scared school see seem seems seen self send sent shall she she's shit should
shouldn't show shut sick since sister sit situation sleep sleeping slept smile somebody someone something sometimes
somewhere soon sorry start started stay still stop stopped stopping story stress stressed stuck study stuff stupid such suck
sucks suicidal supposed sure take taken talk talked talking tbh teacher team tell terrible test text than thank thanks
that that's thats the their them themselves then there there's therefore these they they'd they're they've thing things
think thinking this those though thought thoughts through tired to today together told tomorrow tonight too took tough
towards train tried true trust try trying turn twice two ugh under understand until unless up upset us use used usually
vent very vibe wait waiting wake walk wanna wanted wanting wants wasn't watch watched watching water way we'll we're we've weather
weekend well went weren't what what's whatever when where whether which while who who's whole whose why wife wish with
without woke woman won't wonder wont work worked working works world worry worried worse worst worth would wouldn't wrong
yeah year years yep yes yesterday yet you you'd you'll you're you've young your yours yourself yup
bff brb bro bruh btw cba cuz coz deadass dunno fam fml ftw fyi gg gotcha gtg gtfo hbu hmm hmu hru ikr ily imo irl jk kms kys lil
lmfao luv ngl np nvm omfg ppl pls plz rn rofl rly smh sis sus tf tfw thx til tho tmi ttyl tysm tyvm u'r ur wbu wdym welp
wtf wth whats wassup sup sup. yall y'all yk yolo y'know nah mhm oof yay yikes xd dm dms af asf bc tho thru whatcha aint
wont cant dont didnt doesnt isnt wasnt couldnt wouldnt shouldnt youre theyre hes shes thats ive id ill im
killing killed dying died dead death unaliving unalive brilliant fantastic amazing awesome cool perfect lovely beautiful rainy sunny
lecture essay deadline homework assignment office boss meeting traffic laundry kitchen breakfast playlist concert
guitar football soccer basketball netflix anxious anxiety therapist therapy meds medication headache tummy
goodbye everyone thank mate cheers dude girls boys quick question anyone's
""".split()

COMMON: frozenset[str] = frozenset(_FUNCTION) | frozenset(word for word in SHARED if len(word) > 1)
"""Common English words, in lower case, with a straight apostrophe."""

DISTINCT: frozenset[str] = frozenset(_FUNCTION) - SHARED
"""Those of `COMMON` that are not also common elsewhere."""
