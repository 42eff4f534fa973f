// Package oracle asks PostgreSQL itself what a statement needs: which columns it must let the caller read and write, and
// which functions it must let the caller call.
//
// It asks in two forms that must agree. The first is the server's own analysis, which debug_print_parse prints at Parse
// while nothing runs. The second is the server's refusal: a role that holds exactly some privileges runs the statement,
// and without any one of them does not. The package also invents statements over a catalog to ask about.
//
// Only tests import it.
package oracle
