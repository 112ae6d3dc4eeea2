"""Small invented raw files for every data set."""

from fairmend.paper.datasets import BANK_BOUNDS

COMPAS_HEADER = (
    "Two_yr_Recidivism,Number_of_Priors,score_factor,Age_Above_FourtyFive,Age_Below_TwentyFive,"
    "African_American,Asian,Hispanic,Native_American,Other,Female,Misdemeanor\n"
)
BANK_HEADER = ";".join(f'"{column}"' for column in (*BANK_BOUNDS, "y")) + "\n"

# Raw rows with the encoding that each must get, label last.
ADULT_TEST = (
    "|1x3 Cross validator\n40, Private, 1, 10th, 6, Divorced, Sales, Wife, White, Female, 0, 0, 40, Cuba, <=50K.\n"
)
ADULT_DATA = (
    "17, ?, 1, 10th, 6, Divorced, Sales, Wife, White, Female, 0, 0, 40, Cuba, <=50K\n"
    "90, State-gov, 1, Masters, 14, Widowed, Armed-Forces, Husband, Black, Male, "
    "99999, 218, 99, Yugoslavia, >50K\n"
    "\n"
)
GERMAN = (
    "A11 6 A34 A410 1169 A65 A75 4 A92 A101 4 A124 25 A143 A152 2 A173 1 A192 A201 1\n"
    "A13 48 A33 A40 5951 A63 A71 2 A93 A103 2 A121 26 A141 A151 1 A171 2 A191 A202 2\n"
)
BANK = (
    '25;"unknown";"married";"unknown";"no";72;"yes";"no";"unknown";10;"may";103;1;-1;0;"unknown";"no"\n'
    '66;"admin.";"single";"tertiary";"yes";1429;"no";"yes";"telephone";31;"sep";320;4;1;1;"success";"yes"\n'
)
TINY = {
    "adult": (
        {"adult.test": ADULT_TEST, "adult.data": ADULT_DATA},
        [
            [40, 2, 0, 6, 0, 11, 5, 4, 0, 0, 0, 40, 4, 0],
            [90, 5, 12, 14, 6, 1, 0, 2, 1, 19, 1, 99, 40, 1],
        ],
    ),
    "compas": (
        {"propublica_data_for_fairml.csv": COMPAS_HEADER + "1,38,1,0,1,0,0,1,0,0,1,0\n0,0,0,1,0,0,0,0,0,0,0,1"},
        [[1, 38, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 1, 0]],
    ),
    "german": (
        {"german.data": GERMAN},
        [
            [1, 6, 2, 2, 1169, 2, 1, 4, 0, 4, 3, 0, 2, 1, 2, 2, 1, 1, 0, 0, 1],
            [0, 48, 0, 0, 5951, 0, 2, 2, 2, 2, 0, 1, 0, 0, 1, 0, 2, 0, 1, 1, 0],
        ],
    ),
    "bank": (
        {"bank-full.csv": BANK_HEADER + BANK},
        [
            [1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 3, 1, 1, 1, 1, 0, 0],
            [4, 0, 2, 2, 1, 4, 0, 1, 1, 3, 4, 4, 4, 4, 4, 2, 1],
        ],
    ),
}
