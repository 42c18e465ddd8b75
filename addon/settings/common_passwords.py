"""``is_common``: whether a password is one of those that every word list begins with. Pure.

``_COMMON`` has the passwords of at least 12 characters among the 30,000 most frequent ones in leaked lists. Source: the
frequency list of zxcvbn (github.com/dropbox/zxcvbn, data/passwords.txt), without obscene ones. ``_SHORT`` has some that
are too short by themselves, so people add a year and a sign to them.
"""

from typing import Final

_COMMON: Final = """
010203040506 012345678910 014702580369 01telemike01 102030405060 1111111111zz 111222333000 111222333444555
112233445566 122333444455555 123123qweqwe 123321456654 123321qweewq 123456654321 123456782000 1234567887654321
123456789000 12345678900987654321 1234567890987654321 1234567890qaz 1234567890qw 1234567890qwe 1234567890qwerty
1234567890zzz 123456789101 123456789123 1234567892000 12345678987654321 123456789987654321 123456789abc
123456789asd 123456789qaz 123456789qqq 123456789qwe 123456789qwer 123456789qwerty 123456789zxc 1234567qwertyu
123456qwerty 1234qwerasdf 1234qwerasdfzxcv 123qwe456rty 123qweasdzxc 123qwerty123 12qw34er56ty 159753456852
1a2s3d4f5g6h 1q2w3e4r5t6y 1qa2ws3ed4rf 1qa2ws3ed4rf5tg 1qaz2wsx3edc 1qaz2wsx3edc4rfv 1qazxsw23edc 1qazxsw23edcvfr4
23176djivanfros 31217221027711 32615948worms 4815162342lost 541233432442 59382113kevinp 742617000027 89231243658s
89876065093rax a1s2d3f4g5h6 abc123456789 admin18533362 amadeusptfcor an83546921an13 andrewjackie antananarivu
asdfgh123456 asdfghjkl123 auckland2010 avrillavigne bltynbabrfwbz boy4u2ownnyc bpgjldsgjldthnf chickenwing101
christopher1 cjdthitycndj combat123654 contortionist corperfmonsy counterstrike devilmaycry4 digitalprodu
dkflbvbhjdbx dkflbvbhjdyf domainlock2005 finalfantasy fkmnthyfnbdf fktrcfylhjdbx fktrcfylhjdf fktrcfylhjdyf
flvbybcnhfnjh frederiksberg fynfyfyfhbde gfhjkmgfhjkm ghbdtnghbdtn ghbdtnrfrltkf ghhh47hj7649 ghjcnjgbpltw
ghjcnjgfhjkm ghjcnjghjcnj ghjcnjqgfhjkm ghjcnjrdfibyj ghjnbdjcnjzybt gjkysqgbpltw greenlantern gtnhjpfdjlcr
hd764nw5d7e1vb1 hedimaptfcor ilovemyfamily ingodwetrust installdevic installsqlst iseedeadpeople jamesbond007
justinbieber leavemealone lhbjkjubz2957704 lost4815162342 lytghjgtnhjdcr mailcreated5240 maprchem56458
massimiliano masterbaiting mevefalkcakk michaeljackson minecraft123 minnesota_hp morganstanley mortalkombat
msorcloledbr needforspeed nemvxyheqdd5oqxyxyzi networkingpe newproject2004 nhecsyfujkjdt nhfdvfnjkju123
nhfycajhvths nightcrawler nondriversig olcrackmaster ontheoutside p030710p$e4o paraklast1974 password1234
passwordstandard peanutbutter playstation2 playstation3 ptybnxtvgbjy punksnotdead q1w2e3r4t5y6 q1w2e3r4t5y6u7
q1w2e3r4t5y6u7i8 q1w2e3r4t5y6u7i8o9p0 qawsedrftgyh qaz123wsx456 qazwsxedc123 qazwsxedcrfv qazwsxedcrfvtgb
qazxswedc123 qazxswedcvfr qwaszxerdfcv qweasdzxc123 qwerasdfzxcv qwertasdfgzxcvb qwerty123456 qwerty123456789
qwertyasdfgh qwertyuiop10 qwertyuiop12 qwertyuiop123 qwertyuiop12345 qwertyytrewq residentevil rfnthbyf1988
sanfrancisco saun24865709 seemnemaailm sojdlg123aljg sonnenschein sonyericsson specialinsta stickdaddy77
stratocaster systemofadown temppassword thecakeisalie ticketmaster vanyarespekt vfhbyfvfhbyf vfrcbvvfrcbv
vfvfvskfhfve vladimirovna warhammer40k wazzkaprivet websolutions websolutionssu webuivalidat weihnachtsbau
weihnachtsbaum whosyourdaddy xxxp455w0rd5 z1x2c3v4b5n6m7 zaq1xsw2cde3 zaqwsxcderfv zcfvfzkexifz zqjphsyf6ctifgu
zxcasdqwe123 zxcvbn123456 zxcvbnm123456789
"""

_SHORT: Final = """
123456 123456789 abc123 admin administrator changeme changemenow default dragon gateway guest iloveyou letmein
login master monkey p@ssw0rd p@ssword passphrase passw0rd password qwerty qwertyuiop root secret superuser test
tollgate tollgateadmin user welcome
"""

_LONG, _BEGINNINGS = frozenset(_COMMON.split()), frozenset(_SHORT.split())
_ROWS: Final = (
    "1234567890" * 3,
    "0987654321" * 3,
    "abcdefghijklmnopqrstuvwxyz",
    "qwertyuiopasdfghjklzxcvbnm",
)
_ADDED: Final = "0123456789!?.,;:@#$%&*+-_ "
_MAX_REPEATED: Final = 12


def is_common(password: str) -> bool:
    """Return whether a word list has the password, perhaps in other case, repeated, or with digits and signs added."""
    text = _find_repeated(password.casefold())
    return (
        len(set(text)) < 4
        or text in _LONG
        or any(text in row for row in _ROWS)
        or not _BEGINNINGS.isdisjoint((text, text.strip(_ADDED), text.rstrip(_ADDED)))
    )


def _find_repeated(text: str) -> str:
    """Return the part that a text repeats, else the text."""
    for size in range(1, _MAX_REPEATED + 1):
        part = text[:size]
        if len(text) > size and part * (len(text) // size) == text:
            return part
    return text
