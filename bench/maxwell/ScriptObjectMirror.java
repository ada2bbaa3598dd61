package jdk.nashorn.api.scripting;

/** Empty class of a script engine that Java 15 removed. Maxwell checks whether a value has this type; none has. */
public class ScriptObjectMirror {
}
