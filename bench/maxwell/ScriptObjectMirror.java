package jdk.nashorn.api.scripting;

/** What Maxwell asks each value whether it is: something of a script engine that Java no longer has. None is. */
public class ScriptObjectMirror {
}
