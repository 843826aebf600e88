// How the search of the pages orders what it finds: a guide before an attribute that has the same name.
// Source: https://www.sphinx-doc.org/en/master/usage/configuration.html#confval-html_search_scorer
var Scorer = {
  objNameMatch: 2,
  objPartialMatch: 1,
  objPrio: { 0: 2, 1: 1, 2: 0 },
  objPrioDefault: 0,
  title: 20,
  partialTitle: 10,
  term: 5,
  partialTerm: 2,
};
