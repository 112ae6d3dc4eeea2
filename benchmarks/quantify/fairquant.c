/* The search of FairQuant, to compare with: which share of all people is treated equally by a network.
 *
 * A re-implementation from the published description (Kim, Wang and Wang, "FairQuant: Certifying and Quantifying
 * Fairness of Deep Neural Networks", ICSE 2025), not the authors' program:
 *
 * - A box of people is bounded twice, with the lowest and with the highest protected value. The bounds are symbolic
 *   intervals: two linear forms of the inputs for each unit, in single precision, with sums rounded outward.
 * - It is fair if both outputs have the same sign in all of the box, and unfair if they have different ones.
 * - Otherwise the feature with the largest influence (the bound of the gradient times the width of the box) is halved.
 * - From depth CHECK_LEVELS above the deepest on, ten people of the box are tried. If one of them is treated unequally,
 *   this person counts as unfair, the rest of the box as undecided, and the box is not split again.
 * - At the deepest level (20, unless said otherwise), boxes are left undecided.
 *
 *     fairquant NETWORK.nnet PROTECTED_COLUMN [DEEPEST [SECONDS]]
 *
 * It stops after so many CPU seconds; the boxes that are left are undecided. The ranges of the inputs are those in the
 * header of the .nnet file. It prints shares in per cent, and the CPU seconds of the search alone.
 */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_LAYERS = 64, MAX_WIDTH = 256, MAX_BOXES = 4096, LINE = 1 << 20 };
enum { DEEPEST = 20, CHECK_LEVELS = 5, TRIED_PEOPLE = 10 };
static const double ENOUGH = 1e-5; /* the undecided share at which it stops */

typedef struct {
    int layers, inputs;
    int width[MAX_LAYERS + 1];
    float lowest[MAX_WIDTH], highest[MAX_WIDTH]; /* of each input */
    float *weight[MAX_LAYERS], *bias[MAX_LAYERS];
} Network;

typedef struct {
    float low[MAX_WIDTH], high[MAX_WIDTH]; /* of each input */
    int depth;
} Box;

typedef enum { OFF, UNSTABLE, ON } State;

/* What is known of a network over a box: bounds of the output, and the state of each ReLU. */
typedef struct {
    float low, high;
    State state[MAX_LAYERS][MAX_WIDTH];
} Analysis;

/* Linear forms below and above each unit of a layer: a coefficient for each input, then a constant. */
typedef struct {
    float low[MAX_WIDTH][MAX_WIDTH + 1], high[MAX_WIDTH][MAX_WIDTH + 1];
} Forms;

static void fail(const char *message) {
    fprintf(stderr, "fairquant: %s\n", message);
    exit(2);
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void read_numbers(FILE *file, float *numbers, int count) {
    static char line[LINE];
    if (!fgets(line, LINE, file)) fail("the file ends too early");
    char *word = strtok(line, ",\n");
    for (int i = 0; i < count; i++, word = strtok(NULL, ",\n")) {
        if (!word) fail("a line is too short");
        numbers[i] = strtof(word, NULL);
    }
}

static void skip_comments(FILE *file) {
    int c;
    while ((c = fgetc(file)) == '/')
        while ((c = fgetc(file)) != '\n' && c != EOF) {}
    ungetc(c, file);
}

static void read_network(const char *path, Network *net) {
    FILE *file = fopen(path, "r");
    if (!file) fail("no such file");
    skip_comments(file);
    float numbers[MAX_WIDTH + 1];
    read_numbers(file, numbers, 4);
    net->layers = (int)numbers[0];
    net->inputs = (int)numbers[1];
    if (net->layers > MAX_LAYERS || numbers[2] != 1 || numbers[3] > MAX_WIDTH) fail("too large, or several outputs");
    read_numbers(file, numbers, net->layers + 1);
    for (int i = 0; i <= net->layers; i++) net->width[i] = (int)numbers[i];
    read_numbers(file, numbers, 0);
    read_numbers(file, net->lowest, net->inputs);
    read_numbers(file, net->highest, net->inputs);
    read_numbers(file, numbers, 0); /* means and ranges, which are not used */
    read_numbers(file, numbers, 0);
    for (int layer = 0; layer < net->layers; layer++) {
        int from = net->width[layer], to = net->width[layer + 1];
        net->weight[layer] = malloc(sizeof(float) * from * to);
        net->bias[layer] = malloc(sizeof(float) * to);
        for (int i = 0; i < to; i++) read_numbers(file, net->weight[layer] + i * from, from);
        for (int i = 0; i < to; i++) read_numbers(file, net->bias[layer] + i, 1);
    }
    fclose(file);
}

static float evaluate(const Network *net, const float *input) {
    float values[MAX_WIDTH], next[MAX_WIDTH];
    memcpy(values, input, sizeof(float) * net->inputs);
    for (int layer = 0; layer < net->layers; layer++) {
        int from = net->width[layer], to = net->width[layer + 1];
        for (int i = 0; i < to; i++) {
            float sum = net->bias[layer][i];
            for (int j = 0; j < from; j++) sum += net->weight[layer][i * from + j] * values[j];
            next[i] = layer < net->layers - 1 && sum < 0 ? 0 : sum;
        }
        memcpy(values, next, sizeof(float) * to);
    }
    return values[0];
}

/* Add a unit's weighted sources to a form: of each, the form on the side that the sign of its weight selects. */
static void add_sources(float *form, const float *weight, int from, int terms, const float (*same)[MAX_WIDTH + 1],
                        const float (*other)[MAX_WIDTH + 1], float bias) {
    memset(form, 0, sizeof(float) * terms);
    for (int j = 0; j < from; j++) {
        const float *source = weight[j] >= 0 ? same[j] : other[j];
        for (int k = 0; k < terms; k++) form[k] += weight[j] * source[k];
    }
    form[terms - 1] += bias;
}

/* The largest (or with `least` the smallest) value of a form over a box, rounded as the mode says. */
static float extreme(const float *form, const Box *box, int inputs, int least) {
    float sum = 0;
    for (int k = 0; k < inputs; k++) sum += form[k] * ((form[k] >= 0) != least ? box->high[k] : box->low[k]);
    return sum + form[inputs];
}

static void scale(float *form, int terms, double factor) {
    for (int k = 0; k < terms; k++) form[k] *= factor;
}

/* Replace the forms of a unit by those of its ReLU, and return its state. */
static State relax(float *low, float *high, int inputs, const Box *box) {
    int terms = inputs + 1;
    fesetround(FE_UPWARD);
    float most_of_low = extreme(low, box, inputs, 0), most = extreme(high, box, inputs, 0);
    fesetround(FE_DOWNWARD);
    float least = extreme(low, box, inputs, 1), least_of_high = extreme(high, box, inputs, 1);
    if (most <= 0) {
        memset(low, 0, sizeof(float) * terms);
        memset(high, 0, sizeof(float) * terms);
        return OFF;
    }
    if (least >= 0) return ON;
    if (least_of_high < 0) {
        double slope = most / (most - least_of_high);
        scale(high, terms, slope);
        high[inputs] -= slope * least_of_high;
    }
    if (most_of_low < 0)
        memset(low, 0, sizeof(float) * terms);
    else
        scale(low, terms, most_of_low / (most_of_low - least));
    return UNSTABLE;
}

static void analyse(const Network *net, const Box *box, Analysis *found) {
    static Forms memory[2];
    Forms *now = &memory[0], *next = &memory[1];
    int inputs = net->inputs, terms = inputs + 1;
    for (int i = 0; i < inputs; i++) {
        memset(now->low[i], 0, sizeof(float) * terms);
        memset(now->high[i], 0, sizeof(float) * terms);
        now->low[i][i] = now->high[i][i] = 1;
    }
    for (int layer = 0; layer < net->layers; layer++) {
        int from = net->width[layer], to = net->width[layer + 1];
        const float *weight = net->weight[layer], *bias = net->bias[layer];
        fesetround(FE_UPWARD);
        for (int i = 0; i < to; i++)
            add_sources(next->high[i], weight + i * from, from, terms, now->high, now->low, bias[i]);
        fesetround(FE_DOWNWARD);
        for (int i = 0; i < to; i++)
            add_sources(next->low[i], weight + i * from, from, terms, now->low, now->high, bias[i]);
        for (int i = 0; i < to && layer < net->layers - 1; i++)
            found->state[layer][i] = relax(next->low[i], next->high[i], inputs, box);
        Forms *before = now;
        now = next;
        next = before;
    }
    fesetround(FE_UPWARD);
    found->high = extreme(now->high[0], box, inputs, 0);
    fesetround(FE_DOWNWARD);
    found->low = extreme(now->low[0], box, inputs, 1);
    fesetround(FE_TONEAREST);
}

/* Add to `influence` how much each input changes the output at most, for the states of an analysis. */
static void add_influence(const Network *net, const Box *box, const Analysis *found, float *influence) {
    float low[MAX_WIDTH], high[MAX_WIDTH]; /* of the gradient at each unit */
    int last = net->layers - 1;
    memcpy(low, net->weight[last], sizeof(float) * net->width[last]);
    memcpy(high, low, sizeof(float) * net->width[last]);
    for (int layer = last - 1; layer >= 0; layer--) {
        float next_low[MAX_WIDTH] = {0}, next_high[MAX_WIDTH] = {0};
        int from = net->width[layer];
        for (int j = 0; j < net->width[layer + 1]; j++) {
            State state = found->state[layer][j];
            if (state == OFF || (state == UNSTABLE && high[j] < 0)) high[j] = 0;
            if (state == OFF || (state == UNSTABLE && low[j] > 0)) low[j] = 0;
            for (int i = 0; i < from; i++) {
                float weight = net->weight[layer][j * from + i];
                next_low[i] += weight * (weight >= 0 ? low[j] : high[j]);
                next_high[i] += weight * (weight >= 0 ? high[j] : low[j]);
            }
        }
        memcpy(low, next_low, sizeof low);
        memcpy(high, next_high, sizeof high);
    }
    for (int i = 0; i < net->inputs; i++)
        influence[i] += (high[i] > -low[i] ? high[i] : -low[i]) * (box->high[i] - box->low[i]);
}

/* Return the feature to split, or -1 if none has any influence. */
static int choose_feature(const Network *net, const Box *box, const Analysis both[2], int protected) {
    float influence[MAX_WIDTH] = {0}, most = 0;
    for (int k = 0; k < 2; k++) add_influence(net, box, &both[k], influence);
    int best = -1;
    for (int i = 0; i < net->inputs; i++)
        if (i != protected && influence[i] > most) {
            most = influence[i];
            best = i;
        }
    return best;
}

/* Try some people on the diagonal, as the authors' program does: also outside the box, if its lower ends are not 0. */
static int finds_unequal(const Network *net, const Box *box, int protected) {
    float person[MAX_WIDTH];
    for (int n = 0; n < TRIED_PEOPLE; n++) {
        for (int i = 0; i < net->inputs; i++)
            person[i] = (float)(n * ((int)box->low[i] + (int)box->high[i]) / TRIED_PEOPLE);
        person[protected] = net->lowest[protected];
        int lowest = evaluate(net, person) > 0;
        person[protected] = net->highest[protected];
        if (lowest != (evaluate(net, person) > 0)) return 1;
    }
    return 0;
}

static double people_in(const Box *box, int inputs, int protected) {
    double people = 1;
    for (int i = 0; i < inputs; i++)
        if (i != protected) people *= box->high[i] - box->low[i] + 1;
    return people;
}

typedef enum { FAIR, UNFAIR, UNDECIDED } Verdict;

/* Decide a box, and note what is known of it with both protected values. */
static Verdict decide(const Network *net, const Box *box, int protected, double people, Analysis both[2]) {
    for (int k = 0; k < 2; k++) {
        Box with_value = *box;
        with_value.low[protected] = with_value.high[protected] = (k ? net->highest : net->lowest)[protected];
        if (people == 1)
            both[k].low = both[k].high = evaluate(net, with_value.low);
        else
            analyse(net, &with_value, &both[k]);
    }
    if (people == 1) return (both[0].low > 0) == (both[1].low > 0) ? FAIR : UNFAIR;
    int positive[2] = {both[0].low > 0, both[1].low > 0}, negative[2] = {both[0].high < 0, both[1].high < 0};
    if ((positive[0] && positive[1]) || (negative[0] && negative[1])) return FAIR;
    return (positive[0] && negative[1]) || (negative[0] && positive[1]) ? UNFAIR : UNDECIDED;
}

int main(int count, char **arguments) {
    static Network net;
    static Box boxes[MAX_BOXES];
    static Analysis both[2];
    if (count < 3) fail("usage: fairquant NETWORK.nnet PROTECTED_COLUMN [DEEPEST [SECONDS]]");
    read_network(arguments[1], &net);
    int protected = atoi(arguments[2]), deepest = count > 3 ? atoi(arguments[3]) : DEEPEST, left = 1, decided = 0;
    double limit = count > 4 ? atof(arguments[4]) : 1e9, started = cpu_seconds();
    memcpy(boxes[0].low, net.lowest, sizeof net.lowest);
    memcpy(boxes[0].high, net.highest, sizeof net.highest);
    boxes[0].low[protected] = boxes[0].high[protected] = 0;
    double all = people_in(&boxes[0], net.inputs, protected), open = all, fair = 0, unfair = 0;
    double given_up = 0; /* boxes with a person who is treated unequally: undecided, but for that person */
    while (left > 0 && open >= ENOUGH * all && cpu_seconds() - started < limit) {
        Box box = boxes[--left];
        double people = people_in(&box, net.inputs, protected);
        Verdict verdict = decide(&net, &box, protected, people, both);
        decided++;
        if (verdict != UNDECIDED) {
            *(verdict == FAIR ? &fair : &unfair) += people;
            open -= people;
        } else if (box.depth >= deepest - CHECK_LEVELS && finds_unequal(&net, &box, protected)) {
            unfair += 1;
            open -= people;
            given_up += people - 1;
        } else if (box.depth < deepest) {
            int feature = choose_feature(&net, &box, both, protected);
            if (feature < 0) continue;
            if (left + 2 > MAX_BOXES) fail("too many boxes");
            int middle = ((int)box.low[feature] + (int)box.high[feature]) / 2;
            box.depth++;
            boxes[left] = boxes[left + 1] = box;
            boxes[left++].high[feature] = (float)middle;
            boxes[left++].low[feature] = (float)(middle + 1);
        }
    }
    printf("cer_rate: %.6f%%, fal_rate: %.6f%%, und_rate: %.6f%%, boxes: %d, seconds: %.6f\n", 100 * fair / all,
           100 * unfair / all, 100 * (open + given_up) / all, decided, cpu_seconds() - started);
    return 0;
}
