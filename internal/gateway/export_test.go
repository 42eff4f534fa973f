package gateway

// StartWith is Start with a last word on the core before it is used.
var StartWith = start
