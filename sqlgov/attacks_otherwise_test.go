package sqlgov_test

// otherwise lists the cases that are answered otherwise than their author stated, by case or by case and door, with the
// reason why that is safe.
var otherwise = map[string]other{
	"APPR-14":     {"42P01", "the second name has no schema, and the search path does not have it"},
	"APPR-18":     {"26000", "a statement that was not prepared cannot be executed, whatever it would be"},
	"CTE-14":      {"0A000", "the search path cannot be set; the second statement, which reads no table, runs"},
	"CTRL-29/mcp": {"0A000", "interlock_query has no session, so no transaction control"},
	"SESS-27/mcp": {"0A000", "as CTRL-29"},

	"STAR-M21": {runs, "card_no is masked, so a star over it shows what the mask shows"},
	"DERIV-23": {"42501", "how many rows jsonb_path_query makes tells of the masked document, which no mask of the result can hide"},
	"DERIV-32": {"42501", "xmlparse fails on some values, and IS NORMALIZED compares"},
	"ERR-18":   {"42804", "the types do not fit, whatever is in the columns"},

	"DOS-07": {runs, "nothing bounds a value inside the server yet but the statement's timeout"},
	"DOS-08": {runs, "the caller's own timeout is in force; PostgreSQL answers in time"},
	"DOS-11": {runs, "one row of 20 MB is a result like any other on the PostgreSQL door, which is not capped yet"},
	"DOS-15": {runs, "it reads granted columns; there is no cap yet that it could get around"},
	"DOS-17": {runs, "as DOS-15"},
	"DOS-18": {runs, "as DOS-15; what EXECUTE runs is judged as the statement that was prepared"},
	"DOS-23": {runs, "100,000 values are within the size of a statement, and take bounded memory"},

	"DOS-07/mcp": {runs, "as on the other door"},
	"DOS-08/mcp": {"0A000", "SET needs a session; the expression by itself reads nothing and PostgreSQL answers in time"},
	"DOS-11/mcp": {"54000", "the result is larger than one result may be"},
	"DOS-18/mcp": {"0A000", "PREPARE needs a session"},

	"DRIFT-01": {"0A000", "the word is reserved in the parser's grammar only, so the text is refused whatever it reads"},
	"DRIFT-04": {"0A000", "as DRIFT-01"},
	"DRIFT-08": {"42601", "PostgreSQL 15 itself refuses these literals"},
	"DRIFT-10": {"42601", "neither the parser nor PostgreSQL 15 has this syntax"},
	"DRIFT-11": {"42601", "as DRIFT-10"},

	"FILE-03":      {"0A000", "COPY is not supported at all, so what it would copy is not looked at"},
	"FUNC-20":      {"0A000", "CALL is not supported at all"},
	"LAUND-07":     {"0A000", "cursors in SQL are not supported at all"},
	"WRITE-37":     {"0A000", "as LAUND-07"},
	"PLAN-M08/mcp": {"0A000", "PREPARE needs a session"},
	"SESS-21":      {runs, "it returns to the timeout of the source and does not lift it"},
	"PLAN-01":      {"0A000", "EXPLAIN is not supported at all"},
	"PLAN-03":      {"0A000", "as PLAN-01"},
	"PLAN-12":      {"0A000", "the parameter cannot be set, so the last statement is an ordinary one"},
	"SESS-32":      {"0A000", "SHOW is for reviewed parameters, one by one"},
	"LEX-04":       {"42601", "PostgreSQL refuses the text too: its comment ends at the carriage return"},

	"FUNC-12": {"0A000", "the search path cannot be set, so the name without a schema is unknown"},
	"NAME-18": {"0A000", "as FUNC-12"},
	"SESS-09": {"0A000", "as FUNC-12"},
	"STAR-37": {"0A000", "as FUNC-12"},
	"WIRE-16": {"0A000", "options at start-up are refused as a whole"},

	"WIRE-12":     {"XX000", "the server describes a result that was not predicted, so it is withheld; the next try is judged by the new catalog"},
	"WIRE-13":     {"XX000", "as WIRE-12"},
	"WIRE-12/mcp": {"unexplained", "as at the other door; the tool answers that its execution failed"},
	"WIRE-13/mcp": {"unexplained", "as WIRE-12"},
	"WIRE-25":     {runs, "a composite parameter that the client brings reads nothing"},

	"SESS-M01": {runs, "RESET ALL returns to what the gateway set when it connected, whatever the login's defaults are"},
	"SESS-M02": {runs, "as SESS-M01"},
	"SESS-M03": {runs, "as SESS-M01"},
	"SESS-M04": {runs, "as SESS-M01"},
	"SESS-M05": {runs, "as SESS-M01: COMMIT brings back what the gateway set"},

	"SESS-M15/mcp": {"0A000", "PREPARE needs a session"},
	"SESS-M16/mcp": {"0A000", "as SESS-M15"},
	"SESS-M17/mcp": {"0A000", "as SESS-M15"},
	"SESS-M18/mcp": {"0A000", "as SESS-M15"},
	"SESS-M21/mcp": {"0A000", "as SESS-M15"},
	"SESS-M22/mcp": {"0A000", "as CTRL-29"},

	"LEX-M09/mcp": {"unexplained", "a control character ends the JSON text before there is a statement"},
	"LEX-M10/mcp": {"unexplained", "JSON is UTF-8, so there is no statement"},
	"LEX-M11/mcp": {"unexplained", "as LEX-M10"},
	"LEX-M10":     {"22021", "as PostgreSQL answers"},
	"LEX-M11":     {"22021", "as LEX-M10"},
	"PLAN-13":     {"42601", "PostgreSQL 15 does not know the option either"},
}
